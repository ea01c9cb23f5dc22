//! Whether a variable takes a value.

use super::{Known, Takes};
use crate::spec::one_of;
use crate::text::{did_you_mean, shown};

/// What is wrong with a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What is wrong, standing alone.
    pub message: String,
    /// What to write instead.
    pub help: Option<String>,
}

pub(super) fn fault(known: &Known, value: &str) -> Option<Fault> {
    match known.takes {
        Takes::Text => None,
        Takes::Int(low, high) => number(known.name, value, low, high),
        Takes::Ints(low, high) => value.split(',').find_map(|item| number(known.name, item, low, high)),
        Takes::Word(words) => word(known.name, value, words),
        Takes::Words(words) => {
            let list = value.strip_prefix('^').unwrap_or(value);
            list.split(',').find_map(|item| word(known.name, item, words))
        }
    }
}

fn number(name: &str, text: &str, low: i64, high: i64) -> Option<Fault> {
    let read = strtoll(text);
    let plain = read.clean && !read.octal;
    if plain && (low..=high).contains(&read.value) {
        return None;
    }
    let help = match (low, high) {
        (low, i64::MAX) => format!("a whole number from {low} on, without a unit"),
        (low, high) => format!("a whole number from {low} to {high}, without a unit"),
    };
    let message = match plain {
        true => format!("`{name}` does not take `{}`", shown(text)),
        false if name.starts_with("NCCL_") => format!("NCCL reads `{}` as {}", shown(text), read.value),
        false => format!("`{name}` does not take `{}`: not a whole number", shown(text)),
    };
    Some(Fault {
        message,
        help: Some(suggestion(text).map_or(help.clone(), |number| format!("write `{number}`; {help}"))),
    })
}

/// What somebody meant who wrote a unit or a word.
fn suggestion(text: &str) -> Option<i64> {
    let (number, shift) =
        [("K", 10), ("M", 20), ("G", 30), ("KiB", 10), ("MiB", 20), ("GiB", 30), ("KB", 10), ("MB", 20), ("GB", 30)]
            .iter()
            .find_map(|(unit, shift)| Some((text.strip_suffix(unit)?.trim(), *shift)))
            .or(match text {
                "true" | "True" | "yes" | "on" => Some(("1", 0)),
                "false" | "False" | "no" | "off" => Some(("0", 0)),
                _ => None,
            })?;
    number.parse::<i64>().ok()?.checked_mul(1 << shift)
}

/// What C's `strtoll(text, NULL, 0)` makes of a text. NCCL reads its integers so, and does not look at what is left over
/// (NCCL: src/misc/param.cc).
struct Strtoll {
    value: i64,
    /// The whole text was a number.
    clean: bool,
    /// A leading zero made it octal.
    octal: bool,
}

fn strtoll(text: &str) -> Strtoll {
    let blank = text.trim_start();
    let (negative, digits) = match blank.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, blank.strip_prefix('+').unwrap_or(blank)),
    };
    let hex = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
    let hex = hex.filter(|rest| rest.starts_with(|c: char| c.is_ascii_hexdigit()));
    let octal = hex.is_none() && digits.len() > 1 && digits.starts_with('0');
    let (digits, radix) = hex.map_or((digits, if octal { 8 } else { 10 }), |rest| (rest, 16));
    let used = digits.chars().take_while(|c| c.is_digit(radix)).count();
    let (number, rest) = digits.split_at_checked(used).unwrap_or((digits, ""));
    let size = i64::from_str_radix(number, radix).unwrap_or(if number.is_empty() { 0 } else { i64::MAX });
    let value = if negative { -size } else { size };
    Strtoll { value, clean: rest.is_empty() && !number.is_empty() && blank.len() == text.len(), octal }
}

fn word(name: &str, value: &str, words: &[&str]) -> Option<Fault> {
    if words.contains(&value) {
        return None;
    }
    let near = did_you_mean(value, words.iter().copied());
    let message = format!("`{name}` does not take `{}`", shown(value));
    Some(Fault { message, help: Some(format!("{near}it takes {}", one_of(words))) })
}

#[cfg(test)]
mod tests {
    use super::super::find;

    fn said(name: &str, value: &str) -> Option<String> {
        let fault = super::fault(find(name).unwrap(), value)?;
        Some(format!("{} | {}", fault.message, fault.help.unwrap_or_default()))
    }

    #[test]
    fn numbers_are_held_against_what_nccl_would_read() {
        let size = "a whole number from 1 to 1099511627776, without a unit";
        for (value, expected) in [
            ("16M", format!("NCCL reads `16M` as 16 | write `16777216`; {size}")),
            ("16 MiB", format!("NCCL reads `16 MiB` as 16 | write `16777216`; {size}")),
            ("true", format!("NCCL reads `true` as 0 | write `1`; {size}")),
            ("010", format!("NCCL reads `010` as 8 | {size}")),
            ("abc", format!("NCCL reads `abc` as 0 | {size}")),
            ("", format!("NCCL reads `` as 0 | {size}")),
            ("0", format!("`NCCL_BUFFSIZE` does not take `0` | {size}")),
            ("-4", format!("`NCCL_BUFFSIZE` does not take `-4` | {size}")),
            (" 4", format!("NCCL reads ` 4` as 4 | {size}")),
        ] {
            assert_eq!(said("NCCL_BUFFSIZE", value), Some(expected), "{value}");
        }
        for fine in ["8388608", "0x800000"] {
            assert_eq!(said("NCCL_BUFFSIZE", fine), None, "{fine}");
        }
        assert!(said("NCCL_IB_TC", "256").unwrap().starts_with("`NCCL_IB_TC` does not take `256`"));
        assert!(said("NCCL_BUFFSIZE", "99999999999999999999").unwrap().starts_with("`NCCL_BUFFSIZE` does not take"));
        assert_eq!(said("OMP_NUM_THREADS", "4,2"), None);
        assert!(said("OMP_NUM_THREADS", "many").unwrap().contains("not a whole number"));
    }

    #[test]
    fn words_are_taken_in_just_their_case() {
        let fault = said("NCCL_NET_GDR_LEVEL", "sys").unwrap();
        assert!(
            fault.starts_with("`NCCL_NET_GDR_LEVEL` does not take `sys` | did you mean `SYS`? it takes `LOC`, "),
            "{fault}"
        );
        for (name, value) in [
            ("NCCL_NET_GDR_LEVEL", "5"),
            ("NCCL_DEBUG_SUBSYS", "INIT,ENV"),
            ("NCCL_DEBUG_SUBSYS", "^GRAPH"),
            ("CUDA_DEVICE_ORDER", "PCI_BUS_ID"),
            ("NCCL_IB_HCA", "=mlx5_0"),
        ] {
            assert_eq!(said(name, value), None);
        }
        assert!(said("NCCL_DEBUG", "info").unwrap().contains("did you mean `INFO`?"));
        assert!(said("NCCL_DEBUG_SUBSYS", "INIT, ENV").is_some(), "NCCL does not trim");
    }
}
