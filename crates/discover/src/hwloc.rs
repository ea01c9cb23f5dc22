//! Runs libhwloc and turns whatever happens into a result.

use crate::shape::{self, Shape};
use crate::{DiscoverError, quiet};
use gpu_tune_engine::text::panic_words;
use gpu_tune_engine::{Code, Machine, Notice};
use hwlocality::topology::builder::{BuildFlags, TopologyBuilder, TypeFilter};
use std::error::Error;
use std::panic::{UnwindSafe, catch_unwind};
use std::path::Path;

/// Components of libhwloc that load vendors' libraries to name GPUs. They can hang (open-mpi/hwloc#474), and everything
/// they would tell is read here by NVML and from /sys.
const KEPT_OUT: [&str; 6] = ["cuda", "nvml", "opencl", "rsmi", "levelzero", "gl"];

/// The shape of this machine.
pub(crate) fn this_machine() -> Result<Read, DiscoverError> {
    read("this machine".into(), without_vendors_libraries)
}

/// The shape of the machine that an XML text describes; `path` is for messages.
pub(crate) fn from_xml(path: &Path, text: &str) -> Result<Read, DiscoverError> {
    read(format!("`{}`", path.display()), || described(text))
}

/// The machine that an XML text describes, or in words why there is none. What libhwloc prints goes to stderr.
pub(crate) fn read_text(text: &str) -> Result<Machine, String> {
    attempt(|| described(text)).map(|shape| shape.machine)
}

fn described(text: &str) -> Built {
    Ok(TopologyBuilder::new().from_xml(text)?)
}

/// The shape, and what libhwloc complained about.
pub(crate) type Read = (Shape, Vec<Notice>);

type Built = Result<TopologyBuilder, Box<dyn Error>>;

fn read(subject: String, source: impl FnOnce() -> Built + UnwindSafe) -> Result<Read, DiscoverError> {
    let (outcome, printed) = quiet::run(|| attempt(source));
    match outcome {
        Ok(shape) => Ok((shape, complaints(&subject, &printed))),
        Err(message) => Err(DiscoverError::Hwloc { subject, message }),
    }
}

/// The shape, or in words why there is none.
fn attempt(source: impl FnOnce() -> Built + UnwindSafe) -> Result<Shape, String> {
    // hwlocality panics where libhwloc surprises it.
    match catch_unwind(|| load(source()?)) {
        Ok(Ok(shape)) if !shape.machine.cpus.is_empty() => Ok(shape),
        Ok(Ok(_)) => Err("it names no CPU that is online".into()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(panic) => Err(panic_text(&*panic)),
    }
}

fn without_vendors_libraries() -> Built {
    // libhwloc refuses to leave out a component that it does not have, and the refused builder is gone: ask a spare one.
    let has = |name: &&str| TopologyBuilder::new().without_component(name).is_ok();
    let builder =
        KEPT_OUT.iter().filter(|name| has(name)).try_fold(TopologyBuilder::new(), |b, n| b.without_component(n))?;
    Ok(builder)
}

fn load(builder: TopologyBuilder) -> Result<Shape, Box<dyn Error>> {
    let builder = builder.with_flags(BuildFlags::INCLUDE_DISALLOWED)?.with_io_type_filter(TypeFilter::KeepAll)?;
    Ok(shape::read(&builder.build()?))
}

/// What libhwloc printed, as one notice: its banners frame the sentence with stars.
pub(crate) fn complaints(subject: &str, printed: &str) -> Vec<Notice> {
    let said = printed.lines().map(|line| line.trim_matches(['*', ' '])).find(|line| !line.is_empty());
    said.map(|line| Notice::new(Code::Discovery, format!("hwloc says of {subject}: {line}"))).into_iter().collect()
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    panic_words(panic).unwrap_or("an internal error").lines().next().unwrap_or_default().to_owned()
}
