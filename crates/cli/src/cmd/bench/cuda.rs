//! The few calls of the CUDA driver that copying needs, looked up when they are wanted: the command must also start where
//! there is no driver. Signatures are those of cuda.h; `_v2` are the names behind its macros.
#![allow(unsafe_code, reason = "the CUDA driver is a C library")]

use gpu_tune_engine::PciAddress;
use libloading::Library;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::path::{Path, PathBuf};
use std::ptr;

/// Why CUDA cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum CudaError {
    /// No driver library, or one without a function that every driver since CUDA 3.2 has.
    #[error("cannot use `{}`", path.display())]
    Library {
        path: PathBuf,
        #[source]
        source: libloading::Error,
    },
    /// A call failed.
    #[error("{call}: CUDA error {code}")]
    Call { call: &'static str, code: c_int },
    /// CUDA shows no device that is known here.
    #[error("CUDA shows no GPU that can be measured")]
    NoDevice,
}

/// A `CUdevice`.
pub(super) type Device = c_int;
type Context = *mut c_void;
type Pointer = u64;

/// The driver.
#[derive(Debug)]
pub(super) struct Driver {
    get: unsafe extern "C" fn(*mut Device, c_int) -> c_int,
    count: unsafe extern "C" fn(*mut c_int) -> c_int,
    pci: unsafe extern "C" fn(*mut c_char, c_int, Device) -> c_int,
    retain: unsafe extern "C" fn(*mut Context, Device) -> c_int,
    set_current: unsafe extern "C" fn(Context) -> c_int,
    synchronize: unsafe extern "C" fn() -> c_int,
    host_alloc: unsafe extern "C" fn(*mut *mut c_void, usize, c_uint) -> c_int,
    host_free: unsafe extern "C" fn(*mut c_void) -> c_int,
    alloc: unsafe extern "C" fn(*mut Pointer, usize) -> c_int,
    free: unsafe extern "C" fn(Pointer) -> c_int,
    upload: unsafe extern "C" fn(Pointer, *const c_void, usize) -> c_int,
    /// Keeps the functions above in place.
    _library: Library,
}

impl Driver {
    /// Loads and initialises it.
    pub(super) fn open(path: &Path) -> Result<Self, CudaError> {
        let failed = |source| CudaError::Library { path: path.to_owned(), source };
        // SAFETY: the driver's constructors are made to run in any process; a path is given only by this command's caller.
        let library = unsafe { Library::new(path) }.map_err(failed)?;
        let driver = Self {
            get: symbol(&library, "cuDeviceGet").map_err(failed)?,
            count: symbol(&library, "cuDeviceGetCount").map_err(failed)?,
            pci: symbol(&library, "cuDeviceGetPCIBusId").map_err(failed)?,
            retain: symbol(&library, "cuDevicePrimaryCtxRetain").map_err(failed)?,
            set_current: symbol(&library, "cuCtxSetCurrent").map_err(failed)?,
            synchronize: symbol(&library, "cuCtxSynchronize").map_err(failed)?,
            host_alloc: symbol(&library, "cuMemHostAlloc").map_err(failed)?,
            host_free: symbol(&library, "cuMemFreeHost").map_err(failed)?,
            alloc: symbol(&library, "cuMemAlloc_v2").map_err(failed)?,
            free: symbol(&library, "cuMemFree_v2").map_err(failed)?,
            upload: symbol(&library, "cuMemcpyHtoD_v2").map_err(failed)?,
            _library: symbol(&library, "cuInit").map_err(failed).and_then(|init| initialised(init, library))?,
        };
        Ok(driver)
    }

    /// The device at a PCI address. CUDA_VISIBLE_DEVICES may hide it.
    pub(super) fn device(&self, pci: PciAddress) -> Result<Device, CudaError> {
        let mut count = 0;
        // SAFETY: writes one int.
        done("cuDeviceGetCount", unsafe { (self.count)(&raw mut count) })?;
        let found = (0..count).filter_map(|index| self.at(index)).find(|(_, address)| *address == pci);
        found.map(|(device, _)| device).ok_or(CudaError::NoDevice)
    }

    fn at(&self, index: c_int) -> Option<(Device, PciAddress)> {
        let mut device = 0;
        // SAFETY: writes one int.
        done("cuDeviceGet", unsafe { (self.get)(&raw mut device, index) }).ok()?;
        let mut text = [0_u8; 32];
        // SAFETY: writes a C string of at most the length given.
        let code = unsafe { (self.pci)(text.as_mut_ptr().cast(), 32, device) };
        done("cuDeviceGetPCIBusId", code).ok()?;
        let text = text.split(|byte| *byte == 0).next()?;
        Some((device, std::str::from_utf8(text).ok()?.parse().ok()?))
    }

    /// A pinned buffer, placed by the calling thread's mask and policy, and one on the device, for the calling thread.
    pub(super) fn buffers(&self, device: Device, bytes: usize) -> Result<Buffers<'_>, CudaError> {
        let mut context = ptr::null_mut();
        // SAFETY: writes one pointer. The primary context is never released: it lives as long as the process.
        done("cuDevicePrimaryCtxRetain", unsafe { (self.retain)(&raw mut context, device) })?;
        // SAFETY: the context is valid, see above.
        done("cuCtxSetCurrent", unsafe { (self.set_current)(context) })?;
        let mut buffers = Buffers { driver: self, host: ptr::null_mut(), device: 0 };
        // SAFETY: writes one pointer; 0 asks for plain pinned memory.
        done("cuMemHostAlloc", unsafe { (self.host_alloc)(&raw mut buffers.host, bytes, 0) })?;
        // SAFETY: writes one pointer.
        done("cuMemAlloc", unsafe { (self.alloc)(&raw mut buffers.device, bytes) })?;
        Ok(buffers)
    }
}

/// A pinned buffer and one on the device, both of the size asked for.
#[derive(Debug)]
pub(super) struct Buffers<'d> {
    driver: &'d Driver,
    host: *mut c_void,
    device: Pointer,
}

impl Buffers<'_> {
    /// Copies the first bytes, at most the buffers' size, to the device and waits until they are there.
    pub(super) fn upload(&self, bytes: usize) -> Result<(), CudaError> {
        // SAFETY: both buffers are of at least this size, as the callers in this folder see to.
        done("cuMemcpyHtoD", unsafe { (self.driver.upload)(self.device, self.host, bytes) })?;
        // SAFETY: waits for the context that `buffers` made current.
        done("cuCtxSynchronize", unsafe { (self.driver.synchronize)() })
    }
}

impl Drop for Buffers<'_> {
    fn drop(&mut self) {
        if self.device != 0 {
            // SAFETY: allocated in `buffers`, freed once.
            unsafe { (self.driver.free)(self.device) };
        }
        if !self.host.is_null() {
            // SAFETY: allocated in `buffers`, freed once.
            unsafe { (self.driver.host_free)(self.host) };
        }
    }
}

/// A function of the library, of the type that cuda.h declares for this name.
fn symbol<F: Copy>(library: &Library, name: &str) -> Result<F, libloading::Error> {
    // SAFETY: the callers name functions with the types of cuda.h, and `Driver` keeps the library loaded.
    unsafe { library.get::<F>(name.as_bytes()) }.map(|symbol| *symbol)
}

fn initialised(init: unsafe extern "C" fn(c_uint) -> c_int, library: Library) -> Result<Library, CudaError> {
    // SAFETY: the flags must be 0.
    done("cuInit", unsafe { init(0) }).map(|()| library)
}

fn done(call: &'static str, code: c_int) -> Result<(), CudaError> {
    if code == 0 { Ok(()) } else { Err(CudaError::Call { call, code }) }
}
