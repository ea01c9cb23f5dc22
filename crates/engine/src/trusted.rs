//! Reading files that decide what root does.
//!
//! Such a file counts only if nobody but root could have written it, or could have put it there: the file and every
//! directory on the way must be root's and closed to others. The way is walked link by link, from `/` down: once a directory
//! is known to be closed, what it holds cannot be swapped by others while we go on, so the checks hold until the file is
//! open. What is said about the file itself is read from the open file, never from its name.
//!
//! A process that is not root trusts its own user's files too: it could change them anyway.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

/// The most symbolic links on the way to a file; the kernel's own limit is 40.
const LINKS_MAX: usize = 16;
const WRITABLE_BY_OTHERS: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// Why a file or directory is not used.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// Not an absolute path: it would depend on where the process happens to be.
    #[error("`{}` is not an absolute path", .0.display())]
    Relative(PathBuf),
    /// The system refused.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// What was to be read.
        path: PathBuf,
        /// Why it could not.
        #[source]
        source: io::Error,
    },
    /// The file itself is a symbolic link.
    #[error("`{}` is a symbolic link", .0.display())]
    Link(PathBuf),
    /// Too many symbolic links on the way.
    #[error("more than {LINKS_MAX} symbolic links on the way to `{}`", .0.display())]
    Links(PathBuf),
    /// A directory, device, pipe or socket where a file belongs.
    #[error("`{}` is not a regular file", .0.display())]
    NotAFile(PathBuf),
    /// Something else where a directory belongs.
    #[error("`{}` is not a directory", .0.display())]
    NotADirectory(PathBuf),
    /// Somebody else's.
    #[error("`{}` belongs to user {uid}, not to root", path.display())]
    Owner {
        /// The file, or a directory or link on the way to it.
        path: PathBuf,
        /// Whose it is.
        uid: u32,
    },
    /// Open to others.
    #[error("`{}` can be written by others (mode {mode:04o})", path.display())]
    Writable {
        /// The file, or a directory on the way to it.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Larger than the caller takes.
    #[error("`{}` has more than {most} bytes", path.display())]
    TooBig {
        /// The file.
        path: PathBuf,
        /// The bound.
        most: u64,
    },
    /// More files than the caller takes.
    #[error("`{}` has more than {most} files", path.display())]
    TooMany {
        /// The directory.
        path: PathBuf,
        /// The bound.
        most: usize,
    },
}

impl TrustError {
    /// Whether the file, or a directory on the way to it, simply is not there.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Read { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Whether only the permission to read it is missing, which another user may have.
    pub fn is_denied(&self) -> bool {
        matches!(self, Self::Read { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
    }

    /// The way out, printed on a line of its own.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::Read { path, .. } if self.is_denied() => {
                Some(format!("chmod a+r `{}`, and a+x the way to it", path.display()))
            }
            Self::Owner { path, .. } => Some(format!("chown root `{}`", path.display())),
            Self::Writable { path, .. } => Some(format!("chmod go-w `{}`", path.display())),
            Self::Link(_) => Some("put the file itself there".to_owned()),
            Self::Relative(_)
            | Self::Read { .. }
            | Self::Links(_)
            | Self::NotAFile(_)
            | Self::NotADirectory(_)
            | Self::TooBig { .. }
            | Self::TooMany { .. } => None,
        }
    }
}

/// Reads a whole file of at most `most` bytes that only root can have written (see the module's text).
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>, TrustError> {
    open(path)?.whole(path, most)
}

/// Checks a file as [`read`] does, without reading it: for programs and libraries that others will load.
pub fn check(path: &Path) -> Result<(), TrustError> {
    open(path).map(drop)
}

/// Checks a file as [`check`] does, and if it is a symbolic link, the file it leads to: for libraries, whose names are
/// links to the file of one version.
pub fn check_linked(path: &Path) -> Result<(), TrustError> {
    check(&walk(path)?)
}

/// Checks that only root can put files into a directory, and returns where it really is. What is written elsewhere as
/// root may end up anywhere.
pub fn check_dir(path: &Path) -> Result<PathBuf, TrustError> {
    let real = walk(path)?;
    let meta = fs::symlink_metadata(&real).map_err(|source| failed(path, source))?;
    if !meta.is_dir() {
        return Err(TrustError::NotADirectory(path.to_owned()));
    }
    closed(path, &meta)?;
    Ok(real)
}

/// Some files of a directory that only root can put files into.
#[derive(Debug)]
pub struct Listing {
    /// The files, as the directory was named, sorted by name.
    pub files: Vec<PathBuf>,
    real: PathBuf,
}

/// The files of a directory whose names end in `suffix`; hidden ones are left out. The directory must be root's and closed to
/// others, and so must the way to it.
pub fn list_dir(path: &Path, suffix: &str, most: usize) -> Result<Listing, TrustError> {
    let real = check_dir(path)?;
    let mut files = Vec::new();
    for entry in fs::read_dir(&real).map_err(|source| failed(path, source))? {
        let name = entry.map_err(|source| failed(path, source))?.file_name();
        let wanted = name.to_str().is_some_and(|name| !name.starts_with('.') && name.ends_with(suffix));
        if wanted {
            files.push(path.join(name));
        }
        if files.len() > most {
            return Err(TrustError::TooMany { path: path.to_owned(), most });
        }
    }
    files.sort();
    Ok(Listing { files, real })
}

impl Listing {
    /// Reads one of the files as [`read`] does. The way to the directory was walked when it was listed, and is not walked again.
    pub fn read(&self, file: &Path, most: u64) -> Result<Vec<u8>, TrustError> {
        let name = file.file_name().ok_or_else(|| TrustError::NotAFile(file.to_owned()))?;
        open_at(file, &self.real.join(name))?.whole(file, most)
    }
}

/// A regular file that only root can have written, and its size in bytes.
struct Opened {
    file: File,
    size: u64,
}

fn open(path: &Path) -> Result<Opened, TrustError> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(TrustError::NotAFile(path.to_owned()));
    };
    open_at(path, &walk(parent)?.join(name))
}

/// The same in a directory that is known to be closed; `path` is what the file was named.
fn open_at(path: &Path, real: &Path) -> Result<Opened, TrustError> {
    // Files of a set-uid program's process are root's, and hold what its user said.
    if real.starts_with("/proc") {
        return Err(TrustError::NotAFile(path.to_owned()));
    }
    // O_NONBLOCK: opening a pipe would wait for a writer.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(real).map_err(|source| {
        if source.raw_os_error() == Some(libc::ELOOP) {
            TrustError::Link(path.to_owned())
        } else {
            failed(path, source)
        }
    })?;
    let meta = file.metadata().map_err(|source| failed(path, source))?;
    if !meta.is_file() {
        return Err(TrustError::NotAFile(path.to_owned()));
    }
    closed(path, &meta)?;
    Ok(Opened { file, size: meta.len() })
}

impl Opened {
    fn whole(self, path: &Path, most: u64) -> Result<Vec<u8>, TrustError> {
        // With room for all of it and the end one call reads it: without, `read_to_end` feels its way from 32 bytes on.
        let room = usize::try_from(self.size.min(most)).unwrap_or(0).saturating_add(1);
        let mut bytes = Vec::with_capacity(room);
        self.file.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(|source| failed(path, source))?;
        if bytes.len() as u64 > most {
            return Err(TrustError::TooBig { path: path.to_owned(), most });
        }
        Ok(bytes)
    }
}

/// Follows a path from `/` down, checks every directory and link on it, and returns where it really leads.
fn walk(path: &Path) -> Result<PathBuf, TrustError> {
    if !path.is_absolute() {
        return Err(TrustError::Relative(path.to_owned()));
    }
    let mut real = PathBuf::from("/");
    let mut todo = steps(path);
    let mut links = 0;
    while let Some(step) = todo.pop() {
        match step {
            Step::Up => {
                real.pop();
                continue;
            }
            Step::Root => real = PathBuf::from("/"),
            Step::Down(name) => real.push(name),
        }
        let meta = fs::symlink_metadata(&real).map_err(|source| failed(&real, source))?;
        owned(&real, &meta)?;
        if meta.is_symlink() {
            links += 1;
            if links > LINKS_MAX {
                return Err(TrustError::Links(path.to_owned()));
            }
            let target = fs::read_link(&real).map_err(|source| failed(&real, source))?;
            real.pop();
            todo.extend(steps(&target));
        } else if meta.mode() & STICKY == 0 {
            // In a sticky directory others can add names, but not replace root's.
            closed(&real, &meta)?;
        }
    }
    Ok(real)
}

enum Step {
    Root,
    Up,
    Down(OsString),
}

/// The steps of a path, last one first.
fn steps(path: &Path) -> Vec<Step> {
    path.components()
        .rev()
        .filter_map(|component| match component {
            Component::RootDir => Some(Step::Root),
            Component::ParentDir => Some(Step::Up),
            Component::Normal(name) => Some(Step::Down(name.to_owned())),
            Component::CurDir | Component::Prefix(_) => None,
        })
        .collect()
}

fn closed(path: &Path, meta: &Metadata) -> Result<(), TrustError> {
    owned(path, meta)?;
    if meta.mode() & WRITABLE_BY_OTHERS != 0 {
        return Err(TrustError::Writable { path: path.to_owned(), mode: meta.mode() & 0o7777 });
    }
    Ok(())
}

fn owned(path: &Path, meta: &Metadata) -> Result<(), TrustError> {
    let uid = meta.uid();
    if uid == 0 || own_uid() == Some(uid) {
        return Ok(());
    }
    Err(TrustError::Owner { path: path.to_owned(), uid })
}

/// The effective user, whose our own directory in /proc is (proc(5); true also of a process that may not be dumped,
/// whose files in there are root's).
fn own_uid() -> Option<u32> {
    fs::metadata("/proc/self").ok().map(|meta| meta.uid())
}

fn failed(path: &Path, source: io::Error) -> TrustError {
    TrustError::Read { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDir;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn said(path: &Path) -> String {
        read(path, 100).unwrap_err().to_string()
    }

    /// Whether this test may give files away.
    fn root() -> bool {
        let root = own_uid() == Some(0);
        if !root {
            println!("skipped: not root");
        }
        root
    }

    #[test]
    fn a_closed_file_of_our_own_is_read() {
        let dir = TempDir::new("trusted-read");
        let file = dir.write("a.toml", "text");
        assert_eq!(read(&file, 4).unwrap(), b"text");
        assert_eq!(read(&file, 3).unwrap_err().to_string(), format!("`{}` has more than 3 bytes", file.display()));
        check(&file).unwrap();
    }

    #[test]
    fn what_others_can_write_is_refused_with_the_way_out() {
        let dir = TempDir::new("trusted-mode");
        let file = dir.write("a.toml", "text");
        for bits in [0o664, 0o646, 0o666] {
            mode(&file, bits);
            let error = read(&file, 100).unwrap_err();
            assert_eq!(error.to_string(), format!("`{}` can be written by others (mode {bits:04o})", file.display()));
            assert_eq!(error.help().unwrap(), format!("chmod go-w `{}`", file.display()));
        }
        mode(&file, 0o644);
        mode(dir.path(), 0o777);
        assert_eq!(said(&file), format!("`{}` can be written by others (mode 0777)", dir.path().display()));
        let listed = list_dir(dir.path(), ".toml", 10).unwrap_err().to_string();
        assert_eq!(listed, format!("`{}` can be written by others (mode 0777)", dir.path().display()));
        mode(dir.path(), 0o1777);
        read(&file, 100).expect("root's file in a sticky directory cannot be replaced by others");
        list_dir(dir.path(), ".toml", 10).expect_err("others can add files to a sticky directory");
        mode(dir.path(), 0o755);
    }

    #[test]
    fn what_is_somebody_elses_is_refused() {
        if !root() {
            return;
        }
        let dir = TempDir::new("trusted-owner");
        let file = dir.write("a.toml", "text");
        chown(&file, Some(1234), None).unwrap();
        assert_eq!(said(&file), format!("`{}` belongs to user 1234, not to root", file.display()));
        chown(&file, Some(0), None).unwrap();
        chown(dir.path(), Some(1234), None).unwrap();
        assert_eq!(said(&file), format!("`{}` belongs to user 1234, not to root", dir.path().display()));
        chown(dir.path(), Some(0), None).unwrap();
        read(&file, 100).unwrap();
    }

    #[test]
    fn a_link_is_refused_as_the_file_and_followed_on_the_way_only_if_root_made_it() {
        let dir = TempDir::new("trusted-link");
        let file = dir.write("real/a.toml", "text");
        let link = dir.path().join("b.toml");
        symlink(&file, &link).unwrap();
        assert_eq!(said(&link), format!("`{}` is a symbolic link", link.display()));
        let way = dir.path().join("way");
        symlink("./real/../real", &way).unwrap();
        assert_eq!(read(&way.join("a.toml"), 100).unwrap(), b"text");
        if root() {
            std::os::unix::fs::lchown(&way, Some(1234), None).unwrap();
            assert_eq!(said(&way.join("a.toml")), format!("`{}` belongs to user 1234, not to root", way.display()));
        }
        let round = dir.path().join("round");
        symlink("round", &round).unwrap();
        let file = round.join("a.toml");
        assert_eq!(said(&file), format!("more than 16 symbolic links on the way to `{}`", round.display()));
    }

    #[test]
    fn a_librarys_link_is_followed_to_a_file_that_counts() {
        let dir = TempDir::new("trusted-linked");
        let file = dir.write("lib.so.1.2", "");
        let link = dir.path().join("lib.so.1");
        symlink("lib.so.1.2", &link).unwrap();
        check_linked(&link).unwrap();
        check_linked(&file).unwrap();
        mode(&file, 0o666);
        let error = check_linked(&link).unwrap_err();
        assert_eq!(error.to_string(), format!("`{}` can be written by others (mode 0666)", file.display()));
    }

    #[test]
    fn only_regular_files_under_absolute_paths_count_and_a_pipe_does_not_hang() {
        let dir = TempDir::new("trusted-kind");
        assert_eq!(said(dir.path()), format!("`{}` is not a regular file", dir.path().display()));
        assert_eq!(said(Path::new("a.toml")), "`` is not an absolute path");
        assert_eq!(said(Path::new("/dev/null")), "`/dev/null` is not a regular file");
        assert_eq!(said(Path::new("/")), "`/` is not a regular file");
        // Root's, in root's directory, and yet of somebody else's making.
        assert_eq!(said(Path::new("/proc/1/cmdline")), "`/proc/1/cmdline` is not a regular file");
        let pipe = dir.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        assert_eq!(said(&pipe), format!("`{}` is not a regular file", pipe.display()));
        let missing = read(&dir.path().join("none"), 100).unwrap_err();
        assert!(missing.is_missing(), "{missing}");
    }

    #[test]
    fn files_of_a_listing_are_read_with_the_same_care_as_others() {
        let dir = TempDir::new("trusted-listed");
        let path = |name: &str| dir.path().join(name);
        dir.write("fine.toml", "text");
        dir.write("open.toml", "");
        fs::set_permissions(path("open.toml"), fs::Permissions::from_mode(0o666)).unwrap();
        std::os::unix::fs::symlink(path("fine.toml"), path("link.toml")).unwrap();
        let listing = list_dir(dir.path(), ".toml", 10).unwrap();
        let read = |name: &str, most| listing.read(&path(name), most).map_err(|error| error.to_string());
        assert_eq!(read("fine.toml", 4), Ok(b"text".to_vec()));
        assert_eq!(read("fine.toml", 3), Err(format!("`{}` has more than 3 bytes", path("fine.toml").display())));
        assert!(read("open.toml", 4).unwrap_err().contains("can be written by others"));
        assert!(read("link.toml", 4).unwrap_err().contains("is a symbolic link"));
    }

    #[test]
    fn a_directory_is_listed_in_order_without_hidden_and_other_files() {
        let dir = TempDir::new("trusted-list");
        for name in ["b.toml", "a.toml", ".c.toml", "d.txt"] {
            dir.write(name, "");
        }
        let listing = list_dir(dir.path(), ".toml", 10).unwrap();
        assert_eq!(listing.files, [dir.path().join("a.toml"), dir.path().join("b.toml")]);
        let error = list_dir(dir.path(), ".toml", 1).unwrap_err();
        assert_eq!(error.to_string(), format!("`{}` has more than 1 files", dir.path().display()));
        assert!(list_dir(&dir.path().join("none"), ".toml", 1).unwrap_err().is_missing());
    }
}
