//! What a snapshot is valid for: this boot, this driver, these GPUs.
//!
//! A step computes the key anew and compares, so all of it must be cheap: a handful of small files and directory listings,
//! no library and no device that might have to wake up.

use crate::PciAddress;
use crate::machine::Vendor;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// How much of the kernel's list of PCI devices is read: a device takes some 270 bytes.
const PCI_MOST: u64 = 4 * 1024 * 1024;

/// What a snapshot is valid for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// The version of gpu-tune that wrote the snapshot: another one may read more.
    pub version: String,
    /// The kernel's number of this boot, from /proc/sys/kernel/random/boot_id.
    pub boot_id: Option<String>,
    /// Version of the loaded NVIDIA driver, from /proc/driver/nvidia/version.
    pub driver: Option<String>,
    /// The GPUs present, ascending.
    pub gpus: Vec<PciAddress>,
    /// The MIG devices configured, as `gpu0/gi1/ci0` by device minor: they change without a reboot.
    #[serde(default)]
    pub mig: Vec<String>,
    /// The file that the machine was read from instead, with its size in bytes and the time of its last change in
    /// nanoseconds; `None`: from the machine itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<String>,
}

impl Key {
    /// The key of the machine whose /proc and /sys are below `root` (`/`, or a replayed tree).
    pub fn of_this_host(root: &Path) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            boot_id: first_line(&root.join("proc/sys/kernel/random/boot_id")),
            driver: driver(root),
            gpus: gpus(root).into_iter().collect(),
            mig: mig(root).into_iter().collect(),
            topology: None,
        }
    }

    /// The same for a machine that a file describes (`topology=`), as the file is now below `root`.
    #[must_use]
    pub fn described_by(self, root: &Path, file: Option<&Path>) -> Self {
        let stamp = |file: &Path| {
            let meta = fs::metadata(root.join(file.strip_prefix("/").unwrap_or(file))).ok();
            let (size, seconds, nanoseconds) =
                meta.map_or((0, 0, 0), |meta| (meta.len(), meta.mtime(), meta.mtime_nsec()));
            format!("{} {size} {seconds}.{nanoseconds:09}", file.display())
        };
        Self { topology: file.map(stamp), ..self }
    }

    /// The first thing in which `now` differs, as a sentence; `None` when the keys are equal.
    pub(super) fn difference(&self, now: &Self) -> Option<String> {
        let shown = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".to_owned());
        if self.version != now.version {
            return Some(format!("written by gpu-tune {}, this is {}", self.version, now.version));
        }
        if self.topology != now.topology {
            return Some(match (&self.topology, &now.topology) {
                (Some(then), None) => format!("it describes the machine of a file, `{then}`"),
                _ => "it was not made of the file of `topology=` as that is now".to_owned(),
            });
        }
        if self.boot_id != now.boot_id {
            return Some("the node was booted since".to_owned());
        }
        if self.driver != now.driver {
            return Some(format!("NVIDIA driver was {}, is {}", shown(&self.driver), shown(&now.driver)));
        }
        if self.gpus != now.gpus {
            return Some(format!("{} GPUs then, {} now, or others", self.gpus.len(), now.gpus.len()));
        }
        (self.mig != now.mig).then(|| "the MIG devices were changed since".to_owned())
    }
}

/// `550.54.15` of `NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue …`; the open driver writes
/// `NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build …`. `None` without the driver.
pub fn driver(root: &Path) -> Option<String> {
    let line = first_line(&root.join("proc/driver/nvidia/version"))?;
    let version = |word: &&str| word.contains('.') && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    line.split_ascii_whitespace().find(version).map(str::to_owned)
}

/// The GPUs that a driver holds; without any driver, those that PCI shows.
fn gpus(root: &Path) -> BTreeSet<PciAddress> {
    let mut gpus = addresses(&root.join("proc/driver/nvidia/gpus"));
    gpus.extend(addresses(&root.join("sys/bus/pci/drivers/amdgpu")));
    if gpus.is_empty() { on_pci(root) } else { gpus }
}

/// The names of a directory that are PCI addresses.
fn addresses(directory: &Path) -> BTreeSet<PciAddress> {
    names(directory).filter_map(|name| name.parse().ok()).collect()
}

/// Asks the devices whose maker also makes GPUs. To ask each for its maker takes milliseconds on a big node, so that is read
/// from the one file that has all of them.
fn on_pci(root: &Path) -> BTreeSet<PciAddress> {
    let devices = root.join("sys/bus/pci/devices");
    let makers = text(&root.join("proc/bus/pci/devices"), PCI_MOST).and_then(|list| of_gpu_makers(&list));
    if makers.as_ref().is_some_and(BTreeSet::is_empty) {
        return BTreeSet::new();
    }
    let possible = |address: &PciAddress| {
        let place = (address.bus, address.device, address.function);
        makers.as_ref().is_none_or(|makers| makers.contains(&place))
    };
    let number = |name: &str, file: &str| {
        let text = first_line(&devices.join(name).join(file))?;
        u32::from_str_radix(text.trim_start_matches("0x"), 16).ok()
    };
    let gpu = |name: &String| {
        let vendor = u16::try_from(number(name, "vendor")?).ok()?;
        Vendor::of_id(vendor)?;
        let class = u16::try_from(number(name, "class")? >> 8).ok()?;
        Vendor::of_function(vendor, class)
    };
    let here = names(&devices).filter_map(|name| Some((name.parse::<PciAddress>().ok()?, name)));
    here.filter(|(address, name)| possible(address) && gpu(name).is_some()).map(|(address, _)| address).collect()
}

/// Bus, device and function of the devices by makers of GPUs, in any domain; `None` if it is no such list. Each line of
/// /proc/bus/pci/devices begins with bus and `devfn` in one hexadecimal word and the maker's and the model's number in
/// another (`show_device` in the kernel's drivers/pci/proc.c).
fn of_gpu_makers(list: &str) -> Option<BTreeSet<(u8, u8, u8)>> {
    let place = |line: &str| {
        let (place, rest) = line.split_once('\t')?;
        let maker = u16::from_str_radix(rest.get(..4)?, 16).ok()?;
        let [bus, devfn] = u16::from_str_radix(place, 16).ok()?.to_be_bytes();
        Some((maker, (bus, devfn >> 3, devfn & 7)))
    };
    let mut devices = list.lines().filter_map(place).peekable();
    devices.peek()?;
    Some(devices.filter(|(maker, _)| Vendor::of_id(*maker).is_some()).map(|(_, place)| place).collect())
}

/// The configured compute instances, from the driver's capability files.
fn mig(root: &Path) -> BTreeSet<String> {
    let top = root.join("proc/driver/nvidia/capabilities");
    let mut found = BTreeSet::new();
    for gpu in numbered(&top, "gpu") {
        let instances = top.join(&gpu).join("mig");
        for gi in numbered(&instances, "gi") {
            found.extend(numbered(&instances.join(&gi), "ci").map(|ci| format!("{gpu}/{gi}/{ci}")));
        }
    }
    found
}

/// The names in a directory that are `prefix` and a number.
fn numbered(directory: &Path, prefix: &str) -> impl Iterator<Item = String> {
    names(directory).filter(move |name| name.strip_prefix(prefix).is_some_and(|n| n.parse::<u32>().is_ok()))
}

/// The names in a directory; none when it cannot be read.
fn names(directory: &Path) -> impl Iterator<Item = String> + use<> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}

/// The first line of a small file of the kernel, trimmed; `None` when the file is missing or empty.
fn first_line(path: &Path) -> Option<String> {
    let text = text(path, 4096)?;
    text.lines().next().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned)
}

/// A file of the kernel, up to a size; `None` when it cannot be read.
fn text(path: &Path, most: u64) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.take(most).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDir;

    #[test]
    fn a_machine_of_a_file_is_that_files_as_it_is_now() {
        let dir = TempDir::new("key-file");
        let (one, other) = (dir.write("one.xml", "1"), dir.write("other.xml", "1"));
        let described = |file: Option<&Path>| Key::default().described_by(Path::new("/"), file);
        let of_one = described(Some(&one));
        assert_eq!(of_one.difference(&described(Some(&one))), None);
        let differs = Some("it was not made of the file of `topology=` as that is now".to_owned());
        assert_eq!(of_one.difference(&described(Some(&other))), differs);
        assert_eq!(Key::default().difference(&of_one), differs);
        let left = of_one.difference(&described(None)).unwrap();
        assert!(left.starts_with(&format!("it describes the machine of a file, `{} 1 ", one.display())), "{left}");
        dir.write("one.xml", "22");
        assert_eq!(of_one.difference(&described(Some(&one))), differs);
        std::fs::remove_file(&one).unwrap();
        assert_eq!(of_one.difference(&described(Some(&one))), differs);
    }

    fn addresses_of(key: &Key) -> Vec<String> {
        key.gpus.iter().map(PciAddress::to_string).collect()
    }

    #[test]
    fn the_drivers_files_give_version_gpus_and_mig_devices() {
        let root = TempDir::new("key-driver");
        root.write("proc/sys/kernel/random/boot_id", "0f0f-1\n");
        root.write(
            "proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5\nGCC version: 12.2.0\n",
        );
        root.write("proc/driver/nvidia/gpus/0000:4e:00.0/information", "");
        root.write("proc/driver/nvidia/gpus/0000:07:00.0/information", "");
        root.write("proc/driver/nvidia/capabilities/mig/config", "");
        root.write("proc/driver/nvidia/capabilities/gpu1/mig/gi2/ci0/access", "");
        root.write("proc/driver/nvidia/capabilities/gpu1/mig/gi2/access", "");
        let key = Key::of_this_host(root.path());
        assert_eq!(addresses_of(&key), ["0000:07:00.0", "0000:4e:00.0"]);
        assert_eq!((key.boot_id.as_deref(), key.driver.as_deref()), (Some("0f0f-1"), Some("550.54.15")));
        assert_eq!(key.mig, ["gpu1/gi2/ci0"]);
    }

    #[test]
    fn the_open_driver_writes_its_version_elsewhere_in_the_line() {
        let root = TempDir::new("key-open");
        let line = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build  (x)\n";
        root.write("proc/driver/nvidia/version", line);
        assert_eq!(driver(root.path()).as_deref(), Some("570.124.06"));
    }

    #[test]
    fn without_a_driver_pci_tells_which_devices_are_gpus() {
        let root = TempDir::new("key-pci");
        for (name, vendor, class) in [
            ("0000:06:00.0", "0x10de", "0x030200"),
            ("0000:01:00.0", "0x1a03", "0x030000"),
            ("0000:c1:00.0", "0x1002", "0x038000"),
            ("0000:07:00.0", "0x10de", "0x068000"),
        ] {
            root.write(&format!("sys/bus/pci/devices/{name}/vendor"), &format!("{vendor}\n"));
            root.write(&format!("sys/bus/pci/devices/{name}/class"), &format!("{class}\n"));
        }
        assert_eq!(addresses_of(&Key::of_this_host(root.path())), ["0000:06:00.0", "0000:c1:00.0"]);
    }

    #[test]
    fn only_devices_whose_maker_makes_gpus_are_asked() {
        let root = TempDir::new("key-makers");
        for (name, vendor) in [("0000:4e:1f.3", "0x10de"), ("0001:4e:1f.3", "0x10de"), ("0000:4f:00.0", "0x10de")] {
            root.write(&format!("sys/bus/pci/devices/{name}/vendor"), &format!("{vendor}\n"));
            root.write(&format!("sys/bus/pci/devices/{name}/class"), "0x030200\n");
        }
        assert_eq!(Key::of_this_host(root.path()).gpus.len(), 3);
        let line = |place: &str, maker: &str| format!("{place}\t{maker}2335\t0\t         0\tnvidia\n");
        let list = format!("{}{}{}odd\n", line("4efb", "10de"), line("4efb", "1002"), line("4f00", "8086"));
        root.write("proc/bus/pci/devices", &list);
        let key = Key::of_this_host(root.path());
        assert_eq!(addresses_of(&key), ["0000:4e:1f.3", "0001:4e:1f.3"], "the last one is not asked");
        root.write("proc/bus/pci/devices", &line("4efb", "8086"));
        assert_eq!(Key::of_this_host(root.path()).gpus, []);
        root.write("proc/bus/pci/devices", "something else\n");
        assert_eq!(Key::of_this_host(root.path()).gpus.len(), 3);
    }

    #[test]
    fn an_empty_tree_gives_an_empty_key() {
        let root = TempDir::new("key-empty");
        let version = env!("CARGO_PKG_VERSION").to_owned();
        assert_eq!(Key::of_this_host(root.path()), Key { version, ..Key::default() });
    }
}
