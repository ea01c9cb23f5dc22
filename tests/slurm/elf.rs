//! A built file, read as the loader reads it.

use object::Endianness;
use object::elf::{self, FileHeader64};
use object::read::elf::{Dyn, FileHeader, Sym};
use std::collections::BTreeSet;
use std::path::Path;

/// What the loader looks at.
#[derive(Debug)]
pub struct File {
    /// Its size in bytes.
    pub bytes: usize,
    /// Names that other files can use.
    pub exports: BTreeSet<String>,
    /// Names that it uses of others.
    pub wants: BTreeSet<String>,
    /// Libraries that it needs.
    pub needs: Vec<String>,
    /// `DT_FLAGS` and `DT_FLAGS_1` together.
    pub flags: u64,
}

/// Reads a 64-bit program or library.
pub fn read(path: &Path) -> File {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let header = FileHeader64::<Endianness>::parse(&*bytes).unwrap();
    let endian = header.endian().unwrap();
    let sections = header.sections(endian, &*bytes).unwrap();
    let (exports, wants) = (BTreeSet::new(), BTreeSet::new());
    let mut file = File { bytes: bytes.len(), exports, wants, needs: Vec::new(), flags: 0 };
    let symbols = sections.symbols(endian, &*bytes, elf::SHT_DYNSYM).unwrap();
    // Local ones are the linker's own, of its sections.
    for symbol in symbols.iter().filter(|symbol| symbol.st_bind() != elf::STB_LOCAL) {
        let name = String::from_utf8(symbol.name(endian, symbols.strings()).unwrap().to_vec()).unwrap();
        if symbol.is_undefined(endian) {
            file.wants.insert(name)
        } else {
            file.exports.insert(name)
        };
    }
    let (dynamic, strings) = sections.dynamic(endian, &*bytes).unwrap().unwrap();
    let strings = sections.strings(endian, &*bytes, strings).unwrap();
    for entry in dynamic {
        match u32::try_from(entry.d_tag(endian)) {
            Ok(elf::DT_NEEDED) => {
                file.needs.push(String::from_utf8(entry.string(endian, strings).unwrap().to_vec()).unwrap());
            }
            Ok(elf::DT_FLAGS | elf::DT_FLAGS_1) => file.flags |= entry.d_val(endian),
            _ => {}
        }
    }
    file
}
