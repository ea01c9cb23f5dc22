//! The files that were built: how big, what they export and need; and what srun opens because of them.

use crate::slurm::Cluster;
use object::{Object, ObjectSymbol};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// One file of `make build`.
#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) name: &'static str,
    pub(crate) bytes: usize,
    /// Names that other files can use.
    pub(crate) exports: BTreeSet<String>,
    /// Libraries that it needs.
    pub(crate) needs: Vec<String>,
}

/// Reads the files of `GPU_TUNE_DIST`, or of target/dist.
pub(crate) fn read(root: &Path) -> Vec<Built> {
    let dist = std::env::var_os("GPU_TUNE_DIST").map_or_else(|| root.join("target/dist"), PathBuf::from);
    let names = ["gpu_tune.so", "libgpu_tune_preload.so", "gpu-tune"];
    names.into_iter().filter_map(|name| built(&dist.join(name), name)).collect()
}

fn built(path: &Path, name: &'static str) -> Option<Built> {
    let bytes = std::fs::read(path).ok()?;
    let file = object::File::parse(&*bytes).unwrap();
    let defined = file.dynamic_symbols().filter(|symbol| symbol.is_definition() && symbol.is_global());
    let exports = defined.filter_map(|symbol| symbol.name().ok().map(str::to_owned)).collect();
    Some(Built { name, bytes: bytes.len(), exports, needs: needs(&bytes) })
}

/// The `DT_NEEDED` entries.
fn needs(bytes: &[u8]) -> Vec<String> {
    use object::read::elf::{Dyn, ElfFile64, FileHeader};
    let file = ElfFile64::<object::Endianness>::parse(bytes).unwrap();
    let (endian, sections) = (file.endian(), file.elf_section_table());
    let Ok(Some((entries, strings))) = sections.dynamic(endian, bytes) else { return Vec::new() };
    let strings = sections.strings(endian, bytes, strings).unwrap();
    let needed = entries.iter().filter(|entry| entry.tag32(endian) == Some(object::elf::DT_NEEDED));
    debug_assert!(file.elf_header().is_type_64());
    needed.map(|entry| String::from_utf8_lossy(entry.string(endian, strings).unwrap()).into_owned()).collect()
}

/// What srun opens with these words, by strace; `None` where that does not run. What is the job's or the place's own
/// name is left out, for it differs from run to run.
pub(crate) fn opened(cluster: &Cluster, words: &[String]) -> Option<BTreeSet<String>> {
    let log = cluster.place.outside("srun.strace");
    let mut strace = cluster.command("strace");
    strace.args(["-f", "-qq", "-e", "trace=openat", "-o"]).arg(&log).arg("srun").args(words);
    let ran = strace.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    ran.ok().filter(std::process::ExitStatus::success)?;
    let text = std::fs::read_to_string(log).ok()?;
    let place = cluster.place.inside("").display().to_string();
    let path = |line: &str| {
        let opened = line.contains("openat(") && !line.contains(" = -1 ");
        let path = line.split('"').nth(1).filter(|_| opened)?;
        let changes = ["/proc/", "/var/run/", "/run/", "/dev/"].iter().any(|start| path.starts_with(start));
        (!changes).then(|| path.replace(&place, "…/"))
    };
    Some(text.lines().filter_map(path).collect())
}
