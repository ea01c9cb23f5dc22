//! Runs libhwloc on a file in a process of its own, so that a file that libhwloc does not survive costs a sentence.
//!
//! On some damaged XML libhwloc 2.9 fails its own assertions, follows null pointers or never ends, and no check ahead of it
//! can know all of that. A program therefore starts itself again for the file ([`read_file`]) and does nothing there but
//! [`serve`]. Text and machine travel in memory files, which neither side can be stuck at; the kernel bounds what the
//! process may use, and its end, whatever it was, is a result here.

use crate::tame::tame;
use crate::{DiscoverError, Found, hwloc, xml};
use gpu_tune_engine::snapshot::{self, Key};
use gpu_tune_engine::text::shown_up_to;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setrlimit};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

/// How long libhwloc may take. The largest real files take a tenth of a second.
const DEADLINE: Duration = Duration::from_secs(20);

/// What the process may use: bytes of memory, bytes it writes, seconds of a CPU should nobody be left to end it, and no core
/// file. A 64 MiB file takes about 1 GiB.
const LIMITS: [(Resource, u64); 4] =
    [(Resource::As, 4 << 30), (Resource::Fsize, 256 << 20), (Resource::Cpu, 60), (Resource::Core, 0)];

/// How much of what libhwloc printed is looked at, in bytes.
const PRINTED: u64 = 64 * 1024;

/// How much of a sentence from there is told, in characters.
const TOLD: usize = 200;

/// Reads a machine from an hwloc XML file or a snapshot, told apart by their first bytes. Nothing of this host is used.
/// `reader` is a command that ends up in [`serve`]; it is started for XML only.
pub fn read_file(path: &Path, reader: Command) -> Result<Found, DiscoverError> {
    read_within(path, reader, DEADLINE)
}

fn read_within(path: &Path, reader: Command, deadline: Duration) -> Result<Found, DiscoverError> {
    let mut found = read(path, reader, deadline)?;
    tame(&mut found.0);
    Ok(found)
}

fn read(path: &Path, reader: Command, deadline: Duration) -> Result<Found, DiscoverError> {
    let text = match xml::contents(path)? {
        xml::Contents::Snapshot(machine) => return Ok((*machine, Vec::new())),
        xml::Contents::Xml(text) => text,
    };
    let subject = format!("`{}`", path.display());
    let ended =
        run(reader, &text, deadline).map_err(|source| DiscoverError::Apart { subject: subject.clone(), source })?;
    match ended.result() {
        Ok(machine) => Ok((machine, hwloc::complaints(&subject, &ended.stderr))),
        Err(Failure::Refused(message)) => Err(DiscoverError::Hwloc { subject, message }),
        Err(Failure::Died(how)) => Err(DiscoverError::Died { path: path.into(), how }),
    }
}

/// The other side of [`read_file`]: the text of an XML file from standard input, the machine as a snapshot to standard
/// output, or else the reason and status 1.
pub fn serve() -> io::Result<ExitCode> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    for (resource, most) in LIMITS {
        // A limit that is lower already stays: only root may raise it.
        let Rlimit { current, maximum } = getrlimit(resource);
        let lower = |limit: Option<u64>| Some(limit.map_or(most, |limit| limit.min(most)));
        setrlimit(resource, Rlimit { current: lower(current), maximum: lower(maximum) })?;
    }
    let text = io::read_to_string(io::stdin())?;
    let (answer, code) = match hwloc::read_text(&text) {
        Ok(machine) => (snapshot::encode(&machine, &Key::default()), ExitCode::SUCCESS),
        Err(message) => (message, ExitCode::FAILURE),
    };
    io::stdout().write_all(answer.as_bytes())?;
    Ok(code)
}

/// A process that is over.
struct Ended {
    /// `Err`: it had to be killed, after this long.
    status: Result<ExitStatus, Duration>,
    stdout: Vec<u8>,
    stderr: String,
}

/// Why there is no machine.
enum Failure {
    /// libhwloc refused the file.
    Refused(String),
    /// libhwloc did not survive it.
    Died(String),
}

impl Ended {
    fn result(&self) -> Result<gpu_tune_engine::Machine, Failure> {
        let how = match self.status.map(|status| (status.code(), status.signal())) {
            Ok((Some(0), _)) => match snapshot::decode(&self.stdout) {
                Ok((machine, _)) => return Ok(machine),
                Err(error) => format!("what it read cannot be used: {error}"),
            },
            Ok((Some(1), _)) if !self.stdout.is_empty() => {
                return Err(Failure::Refused(shown_up_to(&String::from_utf8_lossy(&self.stdout), TOLD)));
            }
            Ok((_, Some(signal))) => format!("it crashed (signal {signal}){}", self.last_words()),
            Ok((code, _)) => format!("its process ended with status {}{}", code.unwrap_or(-1), self.last_words()),
            Err(time) => format!("it did not end within {} s", time.as_secs_f32()),
        };
        Err(Failure::Died(how))
    }

    fn last_words(&self) -> String {
        let last = self.stderr.lines().map(str::trim).rfind(|line| !line.is_empty());
        last.map(|line| format!(": {}", shown_up_to(line, TOLD))).unwrap_or_default()
    }
}

fn run(mut reader: Command, text: &str, deadline: Duration) -> io::Result<Ended> {
    let mut input = memory()?;
    input.write_all(text.as_bytes())?;
    input.rewind()?;
    let (mut output, mut errors) = (memory()?, memory()?);
    reader.stdin(input).stdout(output.try_clone()?).stderr(errors.try_clone()?);
    let status = wait(&mut reader.spawn()?, deadline)?;
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    output.rewind()?;
    output.read_to_end(&mut stdout)?;
    errors.rewind()?;
    errors.take(PRINTED).read_to_end(&mut stderr)?;
    Ok(Ended { status, stdout, stderr: String::from_utf8_lossy(&stderr).into_owned() })
}

fn memory() -> io::Result<File> {
    Ok(memfd_create("gpu-tune-hwloc", MemfdFlags::CLOEXEC)?.into())
}

/// Waits no longer than `most`, then kills.
fn wait(child: &mut Child, most: Duration) -> io::Result<Result<ExitStatus, Duration>> {
    let begin = Instant::now();
    let mut pause = Duration::from_micros(500);
    while begin.elapsed() < most {
        if let Some(status) = child.try_wait()? {
            return Ok(Ok(status));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    }
    child.kill()?;
    child.wait()?;
    Ok(Err(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of a well-formed file whose reader is this shell script.
    fn said(script: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.xml");
        std::fs::write(&file, "<topology><object type=\"Machine\"/></topology>").unwrap();
        let mut reader = Command::new("sh");
        reader.args(["-c", script]);
        let error = read_within(&file, reader, Duration::from_millis(1500)).unwrap_err();
        assert!(error.help().is_some(), "{error}");
        error.to_string().replace(&folder.path().display().to_string(), "")
    }

    #[test]
    fn a_crash_is_told_with_its_signal_and_the_last_words() {
        assert_eq!(said("kill -SEGV $$"), "libhwloc could not load `/x.xml`: it crashed (signal 11)");
        let assertion = "echo banner >&2; echo 'topology.c:1: Assertion failed.' >&2; echo >&2; kill -ABRT $$";
        let expected = "libhwloc could not load `/x.xml`: it crashed (signal 6): topology.c:1: Assertion failed.";
        assert_eq!(said(assertion), expected);
    }

    #[test]
    fn a_hang_ends_at_the_deadline() {
        assert_eq!(said("exec sleep 100"), "libhwloc could not load `/x.xml`: it did not end within 1.5 s");
    }

    #[test]
    fn a_refusal_is_told_as_the_reader_words_it() {
        assert_eq!(said("printf 'no CPU'; exit 1"), "hwloc cannot read `/x.xml`: no CPU");
    }

    #[test]
    fn an_end_without_an_answer_is_no_machine() {
        let expected =
            "libhwloc could not load `/x.xml`: its process ended with status 127: cannot load libhwloc.so.15";
        assert_eq!(said("echo cannot load libhwloc.so.15 >&2; exit 127"), expected);
        assert_eq!(said("exit 1"), "libhwloc could not load `/x.xml`: its process ended with status 1");
        assert!(said("exit 0").contains("what it read cannot be used: "), "{}", said("exit 0"));
        assert!(said("head -c 100000 /dev/zero").contains("what it read cannot be used: "));
    }

    #[test]
    fn what_is_printed_without_end_is_told_in_one_line() {
        let flood = said("yes x | tr -d '\\n' | head -c 1000000 >&2; kill -ABRT $$");
        assert!(flood.len() < 300 && flood.ends_with('…') && flood.lines().count() == 1, "{flood}");
    }

    #[test]
    fn a_reader_that_cannot_be_started_is_named() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/machines/gpu-memory.xml");
        let error = read_file(&file, Command::new("/nonexistent/gpu-tune")).unwrap_err();
        assert!(error.to_string().starts_with("cannot start a process for libhwloc to read `"), "{error}");
    }
}
