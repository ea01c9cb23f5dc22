//! Small helpers on byte strings that need no C library.

/// Whether two byte strings are equal. `==` on slices would call `memcmp`.
pub fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x == y)
}

/// The text before the first `mark` and the text behind it; all and `None` without a mark.
pub fn cut(text: &[u8], mark: u8) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|&byte| byte == mark).and_then(|at| text.split_at_checked(at)) {
        Some((head, tail)) => (head, tail.get(1..)),
        None => (text, None),
    }
}

/// The value in an environment entry `NAME=value`, if it is `name`'s.
pub fn value_of<'a>(entry: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (head, tail) = entry.split_at_checked(name.len())?;
    let (&equals, value) = tail.split_first()?;
    (equals == b'=' && same(head, name)).then_some(value)
}

/// A number of decimal digits, at most 9 of them; no sign, no space.
pub fn number(text: &[u8]) -> Option<u32> {
    if text.is_empty() || text.len() > 9 {
        return None;
    }
    let mut value: u32 = 0;
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.wrapping_mul(10).wrapping_add(u32::from(digit));
    }
    Some(value)
}

/// A short hash: 32-bit FNV-1a (<https://datatracker.ietf.org/doc/html/draft-eastlake-fnv>). It tells whether a variable
/// still has the value it had; it protects from nobody.
pub fn hash(text: &[u8]) -> u32 {
    text.iter().fold(0x811c_9dc5, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Reads what `{:08x}` writes.
pub fn hash_text(text: &[u8]) -> Option<u32> {
    if text.len() != 8 {
        return None;
    }
    let mut value = 0;
    for &byte in text {
        let digit = match byte {
            b'0'..=b'9' => byte.wrapping_sub(b'0'),
            b'a'..=b'f' => byte.wrapping_sub(b'a').wrapping_add(10),
            _ => return None,
        };
        value = (value << 4) | u32::from(digit);
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    #[test]
    fn only_the_whole_name_names_a_variable() {
        assert_eq!(value_of(b"LOCAL_RANK=3", b"LOCAL_RANK"), Some(&b"3"[..]));
        assert_eq!(value_of(b"LOCAL_RANK=", b"LOCAL_RANK"), Some(&b""[..]));
        for entry in [&b"LOCAL_RANKS=3"[..], b"LOCAL_RANK", b"XLOCAL_RANK=3", b"", b"LOCAL_RAN=3"] {
            assert_eq!(value_of(entry, b"LOCAL_RANK"), None, "{entry:?}");
        }
    }

    #[test]
    fn numbers_are_digits_only() {
        assert_eq!(number(b"0"), Some(0));
        assert_eq!(number(b"0042"), Some(42));
        assert_eq!(number(b"999999999"), Some(999_999_999));
        for text in [&b""[..], b"-1", b"+1", b" 1", b"1 ", b"1x", b"9999999999"] {
            assert_eq!(number(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_hash_reads_back() {
        assert_eq!(hash(b"foobar"), 0xbf9c_f968, "the draft's own test vector");
        let hashed = hash(b"0");
        assert_eq!(hash_text(format!("{hashed:08x}").as_bytes()), Some(hashed));
        for text in [&b"1234567"[..], b"123456789", b"1234567G", b"1234567A"] {
            assert_eq!(hash_text(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_text_is_cut_at_the_first_mark() {
        assert_eq!(cut(b"a;b;c", b';'), (&b"a"[..], Some(&b"b;c"[..])));
        assert_eq!(cut(b"a;", b';'), (&b"a"[..], Some(&b""[..])));
        assert_eq!(cut(b"a", b';'), (&b"a"[..], None));
    }
}
