//! Looks at a topology file before libhwloc sees it.
//!
//! libhwloc answers a file it does not like with a bare "invalid argument", hwlocality turns some answers into panics, and
//! objects inside others where they do not belong make libhwloc crash. What people really hand over by mistake (a plan, a web
//! page, half a file) and the commonest ways to crash are found here, with the line; `apart` is for all others.

use crate::DiscoverError;
use gpu_tune_engine::text::shown;
use gpu_tune_engine::{Machine, regular, snapshot};
use std::io::Read;
use std::path::Path;

/// The largest file taken, in bytes. hwloc's XML of a 1024-CPU node with every PCI device has about 2 MB.
const MOST: u64 = 64 * 1024 * 1024;

/// What a file of a machine holds.
pub(crate) enum Contents {
    Snapshot(Box<Machine>),
    /// Text that looks like hwloc's XML, whole.
    Xml(String),
}

/// Reads a file of a machine; its first bytes tell of which kind it is.
pub(crate) fn contents(path: &Path) -> Result<Contents, DiscoverError> {
    let bytes = bytes(path).map_err(|source| DiscoverError::Read { path: path.into(), source })?;
    if !snapshot::is_snapshot(&bytes) {
        return text(path, bytes).map(Contents::Xml);
    }
    let decoded = snapshot::decode(&bytes).map_err(|source| DiscoverError::Snapshot { path: path.into(), source });
    decoded.map(|(machine, _)| Contents::Snapshot(Box::new(machine)))
}

fn text(path: &Path, bytes: Vec<u8>) -> Result<String, DiscoverError> {
    let wrong = |line, message| DiscoverError::NotATopology { path: path.into(), line, message };
    let text = String::from_utf8(bytes).map_err(|error| {
        let line = line_at(error.as_bytes(), error.utf8_error().valid_up_to());
        wrong(line, "expected an hwloc XML file, found bytes that are not text".into())
    })?;
    check(&text).map_err(|(line, message)| wrong(line, message))?;
    Ok(text)
}

/// A file's bytes, within bounds.
fn bytes(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    regular::open(path)?.take(MOST + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > MOST {
        true => Err(std::io::Error::other(format!("larger than {} MiB", MOST >> 20))),
        false => Ok(bytes),
    }
}

/// Whether the text is hwloc's, whole and nested as hwloc nests; the line and the sentence if not.
fn check(text: &str) -> Result<(), (usize, String)> {
    let line = |at| line_at(text.as_bytes(), at);
    if let Some(at) = text.find('\0') {
        return Err((line(at), "expected an hwloc XML file, found a NUL byte".into()));
    }
    let mut nest = Nest::default();
    for tag in (Tags { text, at: 0 }) {
        let tag = tag.map_err(|at| (line(at), "this tag never ends: the file is cut off".to_owned()))?;
        nest.take(&tag).map_err(|message| (line(tag.at), message))?;
    }
    nest.end().map_err(|(at, message)| (line(at), message))
}

/// The elements that are open, and whether one of them was the root.
#[derive(Default)]
struct Nest<'a> {
    open: Vec<Open<'a>>,
    begun: bool,
}

struct Open<'a> {
    name: &'a str,
    /// The `type` of an `<object>`.
    object: Option<&'a str>,
    at: usize,
}

impl<'a> Nest<'a> {
    fn take(&mut self, tag: &Tag<'a>) -> Result<(), String> {
        if let Kind::Close = tag.kind {
            return self.close(tag.name);
        }
        if !self.begun && tag.name != "topology" {
            return Err(format!("expected hwloc's `<topology>`, found `<{}>`", shown(tag.name)));
        }
        self.begun = true;
        let object = if tag.name == "object" { Some(tag.attribute("type").unwrap_or_default()) } else { None };
        let above = self.open.last().and_then(|open| open.object);
        if let Some(object) = object.filter(|object| !may_be_in(object, above)) {
            let place = above.map_or("`<topology>`".to_owned(), |above| format!("`{}`", shown(above)));
            return Err(format!("an object of type `{}` cannot be in {place}", shown(object)));
        }
        if let Some((object, set)) = object.zip(missing_set(tag)) {
            return Err(format!("an object of type `{}` has no `{set}`", shown(object)));
        }
        if let Kind::Open = tag.kind {
            self.open.push(Open { name: tag.name, object, at: tag.at });
        }
        Ok(())
    }

    fn close(&mut self, name: &str) -> Result<(), String> {
        match self.open.pop() {
            Some(open) if open.name == name => Ok(()),
            Some(open) => Err(format!("expected `</{}>`, found `</{}>`", shown(open.name), shown(name))),
            None => Err(format!("`</{}>` closes nothing", shown(name))),
        }
    }

    fn end(self) -> Result<(), (usize, String)> {
        match self.open.last() {
            Some(open) => Err((open.at, format!("`<{}>` is never closed: the file is cut off", shown(open.name)))),
            None if self.begun => Ok(()),
            None => Err((0, "expected hwloc's `<topology>`, found no XML element".into())),
        }
    }
}

/// The half that a pair of sets lacks. hwloc writes both or none, and libhwloc 2.9 follows a null pointer where only
/// one is there (found by the fuzz target `xml`).
fn missing_set(tag: &Tag<'_>) -> Option<&'static str> {
    let has = |name| tag.attribute(name).is_some();
    [("cpuset", "complete_cpuset"), ("nodeset", "complete_nodeset")].into_iter().find_map(|(set, complete)| {
        match (has(set), has(complete)) {
            (true, false) => Some(complete),
            (false, true) => Some(set),
            _ => None,
        }
    })
}

/// hwloc's rules of nesting, as its manual's chapter on object types has them.
fn may_be_in(object: &str, above: Option<&str>) -> bool {
    let input_output = ["Bridge", "PCIDev", "OSDev"];
    let memory = ["NUMANode", "MemCache"];
    match above {
        None => matches!(object, "Machine" | "System"),
        _ if matches!(object, "Machine" | "System") => above == Some("System"),
        _ if object == "Misc" => true,
        Some("PU" | "NUMANode" | "Misc") => false,
        Some("MemCache") => memory.contains(&object),
        Some(above) if input_output.contains(&above) => input_output.contains(&object),
        Some(_) => true,
    }
}

enum Kind {
    Open,
    Close,
    Empty,
}

struct Tag<'a> {
    name: &'a str,
    /// What follows the name.
    rest: &'a str,
    at: usize,
    kind: Kind,
}

impl<'a> Tag<'a> {
    /// The value of an attribute in double quotes, as hwloc writes them.
    fn attribute(&self, name: &str) -> Option<&'a str> {
        let mut quoted = self.rest.split('"');
        std::iter::from_fn(|| Some((quoted.next()?, quoted.next()?)))
            .find(|(before, _)| before.trim_end().strip_suffix('=').is_some_and(|key| key.trim() == name))
            .map(|(_, value)| value)
    }
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
    let (name, rest) = inside.split_once(|c: char| c.is_ascii_whitespace()).unwrap_or((inside, ""));
    Tag { name, rest, at, kind }
}

fn line_at(bytes: &[u8], at: usize) -> usize {
    1 + bytes.iter().take(at).filter(|byte| **byte == b'\n').count()
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
        assert_eq!(
            said(&format!("{head}<topology version=\"2.0\">\n <object a=\"x>y\" type=\"Machine\"/>\n</topology>\n")),
            "fine"
        );
    }

    #[test]
    fn what_is_no_topology_is_named_with_its_line() {
        assert_eq!(said(""), "1: expected hwloc's `<topology>`, found no XML element");
        assert_eq!(said("{\"schema\":1}"), "1: expected hwloc's `<topology>`, found no XML element");
        assert_eq!(said("<!DOCTYPE html>\n<html></html>"), "2: expected hwloc's `<topology>`, found `<html>`");
        assert_eq!(said("<topology>\n<object"), "2: this tag never ends: the file is cut off");
        assert_eq!(said("<topology>\n<info>\n"), "2: `<info>` is never closed: the file is cut off");
        assert_eq!(said("<topology>\n<info>\n</topology>"), "3: expected `</info>`, found `</topology>`");
        assert_eq!(said("<topology></topology>\n</x>"), "2: `</x>` closes nothing");
        assert_eq!(said("</x>"), "1: `</x>` closes nothing");
        assert_eq!(said("<topology>\n\0</topology>"), "2: expected an hwloc XML file, found a NUL byte");
    }

    #[test]
    fn objects_where_they_do_not_belong_are_named() {
        let inside = |outer: &str, inner: &str| {
            let outer = format!("<object os_index=\"0\" type=\"{outer}\">");
            said(&format!(
                "<topology>\n<object type=\"Machine\">\n{outer}\n<object type = \"{inner}\"/>\n</object></object></topology>"
            ))
        };
        assert_eq!(inside("Package", "PU"), "fine");
        assert_eq!(inside("Bridge", "PCIDev"), "fine");
        assert_eq!(inside("PU", "Core"), "4: an object of type `Core` cannot be in `PU`");
        assert_eq!(inside("Package", "Machine"), "4: an object of type `Machine` cannot be in `Package`");
        assert_eq!(inside("OSDev", "PU"), "4: an object of type `PU` cannot be in `OSDev`");
        let root = said("<topology>\n<object type=\"NUMANode\"/></topology>");
        assert_eq!(root, "2: an object of type `NUMANode` cannot be in `<topology>`");
    }

    #[test]
    fn half_a_pair_of_sets_is_named() {
        let with = |sets: &str| said(&format!("<topology>\n<object type=\"Machine\" {sets}/></topology>"));
        assert_eq!(with("cpuset=\"0x1\" complete_cpuset=\"0x1\""), "fine");
        assert_eq!(with("cpuset=\"0x1\""), "2: an object of type `Machine` has no `complete_cpuset`");
        assert_eq!(with("complete_nodeset=\"0x1\""), "2: an object of type `Machine` has no `nodeset`");
    }
}
