//! The host's `/etc/nccl.conf`, as NCCL reads it: one `NAME=VALUE` per line, `#` begins a comment line, nothing is
//! trimmed, and what is in the environment already stays (NCCL: src/misc/param.cc, `setEnvFile`).

use crate::trusted::{self, TrustError};
use std::collections::BTreeMap;
use std::path::Path;

/// Where NCCL looks for it.
pub const NCCL_CONF: &str = "/etc/nccl.conf";

/// The most bytes that are read of it.
pub const NCCL_CONF_MAX: u64 = 64 * 1024;

/// What the file sets, with the line of each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NcclConf(BTreeMap<String, (String, usize)>);

impl NcclConf {
    /// Reads the file's text. Lines that are no setting are passed over, as NCCL does; of two for one name the first counts,
    /// because NCCL does not overwrite.
    pub fn parse(bytes: &[u8]) -> Self {
        let mut settings = BTreeMap::new();
        for (index, line) in String::from_utf8_lossy(bytes).split('\n').enumerate() {
            let setting = line.split_once('=').filter(|(name, _)| !name.is_empty() && !line.starts_with('#'));
            if let Some((name, value)) = setting {
                settings.entry(name.to_owned()).or_insert_with(|| (value.to_owned(), index + 1));
            }
        }
        Self(settings)
    }

    /// Reads the file, if root alone can have written it. A file that is not there sets nothing.
    pub fn load(path: &Path) -> Result<Self, TrustError> {
        match trusted::read(path, NCCL_CONF_MAX) {
            Ok(bytes) => Ok(Self::parse(&bytes)),
            Err(error) if error.is_missing() => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }

    /// The value of an NCCL variable and the line that sets it. Other variables in that file are NCCL's too, but nobody sets
    /// them there on purpose, so they do not hold a profile's value back.
    pub fn get(&self, name: &str) -> Option<(&str, usize)> {
        let (value, line) = self.0.get(name).filter(|_| name.starts_with("NCCL_"))?;
        Some((value, *line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_as_nccl_reads_it() {
        let conf = NcclConf::parse(b"# NCCL_ALGO=Ring\nNCCL_DEBUG=INFO\nNCCL_DEBUG=WARN\n\nNCCL_IB_HCA==mlx5_0,mlx5_1\n NCCL_X=1\nOMP_NUM_THREADS=1\n=x\n");
        assert_eq!(conf.get("NCCL_DEBUG"), Some(("INFO", 2)));
        assert_eq!(conf.get("NCCL_IB_HCA"), Some(("=mlx5_0,mlx5_1", 5)));
        for name in ["NCCL_ALGO", "NCCL_X", "OMP_NUM_THREADS", ""] {
            assert_eq!(conf.get(name), None, "{name}");
        }
    }
}
