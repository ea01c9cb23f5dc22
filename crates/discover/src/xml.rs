//! Looks at a topology file before libhwloc sees it.
//!
//! libhwloc answers a file it does not like with a bare "invalid argument", and hwlocality turns some answers into panics.
//! What people really hand over by mistake (a plan, a web page, half a file) is found here, with the line.

use crate::DiscoverError;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The largest file taken, in bytes. hwloc's XML of a 1024-CPU node with every PCI device has about 2 MB.
const MOST: u64 = 64 * 1024 * 1024;

/// The text of a file that looks like hwloc's XML, whole; `path` is for messages.
pub(crate) fn text(path: &Path, bytes: Vec<u8>) -> Result<String, DiscoverError> {
    let wrong = |line, message| DiscoverError::NotATopology { path: path.into(), line, message };
    let text = String::from_utf8(bytes).map_err(|error| {
        let line = line_at(error.as_bytes(), error.utf8_error().valid_up_to());
        wrong(line, "expected an hwloc XML file, found bytes that are not text".into())
    })?;
    check(&text).map_err(|(line, message)| wrong(line, message))?;
    Ok(text)
}

/// A file's bytes, within bounds.
pub(crate) fn bytes(path: &Path) -> std::io::Result<Vec<u8>> {
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MOST + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > MOST {
        true => Err(std::io::Error::other(format!("larger than {} MiB", MOST >> 20))),
        false => Ok(bytes),
    }
}

/// Whether the text has hwloc's root element and all its tags are closed; the line and the sentence if not.
fn check(text: &str) -> Result<(), (usize, String)> {
    let line = |at| line_at(text.as_bytes(), at);
    if let Some(at) = text.find('\0') {
        return Err((line(at), "expected an hwloc XML file, found a NUL byte".into()));
    }
    let mut open: Vec<(&str, usize)> = Vec::new();
    let mut root = None;
    for tag in (Tags { text, at: 0 }) {
        let Tag { name, at, kind } =
            tag.map_err(|at| (line(at), "this tag never ends: the file is cut off".to_owned()))?;
        if root.is_none() {
            root = Some(name);
            if name != "topology" {
                return Err((line(at), format!("expected hwloc's `<topology>`, found `<{}>`", shown(name))));
            }
        }
        match kind {
            Kind::Empty => {}
            Kind::Open => open.push((name, at)),
            Kind::Close => match open.pop() {
                Some((opened, _)) if opened == name => {}
                Some((opened, _)) => {
                    return Err((line(at), format!("expected `</{}>`, found `</{}>`", shown(opened), shown(name))));
                }
                None => return Err((line(at), format!("`</{}>` closes nothing", shown(name)))),
            },
        }
    }
    match (root, open.last()) {
        (None, _) => Err((1, "expected hwloc's `<topology>`, found no XML element".into())),
        (_, Some((name, at))) => Err((line(*at), format!("`<{}>` is never closed: the file is cut off", shown(name)))),
        (Some(_), None) => Ok(()),
    }
}

enum Kind {
    Open,
    Close,
    Empty,
}

struct Tag<'a> {
    name: &'a str,
    at: usize,
    kind: Kind,
}

/// The tags of an XML text; prolog, comments and text between them are passed over. An error is where an endless one
/// begins.
struct Tags<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Iterator for Tags<'a> {
    type Item = Result<Tag<'a>, usize>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let at = self.at + self.text.get(self.at..)?.find('<')?;
            let rest = self.text.get(at..)?;
            let end = match rest {
                _ if rest.starts_with("<!--") => rest.find("-->").map(|end| end + 2),
                _ => tag_end(rest),
            };
            let Some(end) = end else {
                self.at = self.text.len();
                return Some(Err(at));
            };
            self.at = at + end + 1;
            if !rest.starts_with("<!") && !rest.starts_with("<?") {
                return rest.get(1..end).map(|inside| Ok(tag(inside, at)));
            }
        }
    }
}

/// Where the `>` of a tag is; one inside quotes does not count.
fn tag_end(rest: &str) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in rest.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Some(at),
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), _) if open == byte => quote = None,
            _ => {}
        }
    }
    None
}

fn tag(inside: &str, at: usize) -> Tag<'_> {
    let (kind, inside) = match (inside.strip_prefix('/'), inside.strip_suffix('/')) {
        (Some(name), _) => (Kind::Close, name),
        (None, Some(name)) => (Kind::Empty, name),
        (None, None) => (Kind::Open, inside),
    };
    Tag { name: inside.split_ascii_whitespace().next().unwrap_or_default(), at, kind }
}

fn line_at(bytes: &[u8], at: usize) -> usize {
    1 + bytes.iter().take(at).filter(|byte| **byte == b'\n').count()
}

/// What an error quotes of somebody's file.
fn shown(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        check(text).map_or_else(|(line, message)| format!("{line}: {message}"), |()| "fine".into())
    }

    #[test]
    fn a_topology_passes() {
        let head = "<?xml version=\"1.0\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<!-- a > b -->\n";
        assert_eq!(said(&format!("{head}<topology version=\"2.0\">\n <object a=\"x>y\"/>\n</topology>\n")), "fine");
    }

    #[test]
    fn what_is_no_topology_is_named_with_its_line() {
        assert_eq!(said(""), "1: expected hwloc's `<topology>`, found no XML element");
        assert_eq!(said("{\"schema\":1}"), "1: expected hwloc's `<topology>`, found no XML element");
        assert_eq!(said("<!DOCTYPE html>\n<html></html>"), "2: expected hwloc's `<topology>`, found `<html>`");
        assert_eq!(said("<topology>\n<object"), "2: this tag never ends: the file is cut off");
        assert_eq!(said("<topology>\n<object>\n"), "2: `<object>` is never closed: the file is cut off");
        assert_eq!(said("<topology>\n<object>\n</topology>"), "3: expected `</object>`, found `</topology>`");
        assert_eq!(said("<topology></topology>\n</x>"), "2: `</x>` closes nothing");
        assert_eq!(said("<topology>\n\0</topology>"), "2: expected an hwloc XML file, found a NUL byte");
    }
}
