//! The user's own NCCL settings in a file, `~/.nccl.conf` or what `NCCL_CONF_FILE` names.
//!
//! NCCL reads it before `/etc/nccl.conf`, and the environment before both (src/misc/param.cc), so a variable that
//! gpu-tune sets beats it. The plugin does not look at it: before the fork nothing may depend on a user's home, which
//! can be away. So it is told here, after the fact.

use gpu_tune_engine::env::{NCCL_CONF_MAX, NcclConf};
use gpu_tune_engine::regular;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// The file and what it sets, if it is there; `var` looks up the environment of whoever uses NCCL.
pub fn of_user(var: impl Fn(&str) -> Option<String>) -> Option<(PathBuf, NcclConf)> {
    let named = var("NCCL_CONF_FILE").filter(|path| !path.is_empty()).map(PathBuf::from);
    let path = named.or_else(|| Some(Path::new(&var("HOME")?).join(".nccl.conf")))?;
    let conf = NcclConf::parse(&read(&path)?);
    Some((path, conf))
}

/// Its first bytes, if it is an ordinary file: another user chose the path.
fn read(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    regular::open(path).ok()?.take(NCCL_CONF_MAX).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
