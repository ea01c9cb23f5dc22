//! What messages need: quoting somebody's text safely, and guessing which name was meant.
#![forbid(unsafe_code)]

use std::str::FromStr;

/// The most characters of somebody's text that a message quotes.
const SHOWN: usize = 64;

/// An error with its causes: `a: b: c`.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

/// Whether the text is digits and nothing else.
pub fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A plain decimal number: no sign, no other base.
pub fn number<N: FromStr>(text: &str) -> Option<N> {
    is_digits(text).then(|| text.parse().ok()).flatten()
}

/// What a panic said, if it said it in words.
pub fn panic_words(payload: &(dyn std::any::Any + Send)) -> Option<&str> {
    payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str))
}

/// Somebody's text as a message may quote it: cut to 64 characters, control characters escaped, so that a hostile text can
/// neither flood a log nor play with a terminal.
pub fn shown(text: &str) -> String {
    shown_up_to(text, SHOWN)
}

/// The same with room for so many characters, for whole sentences of another program.
pub fn shown_up_to(text: &str, most: usize) -> String {
    let mut out = String::new();
    for letter in text.chars().take(most) {
        match letter {
            // Harmless, and read by people.
            '\'' | '"' => out.push(letter),
            _ => out.extend(letter.escape_debug()),
        }
    }
    if text.chars().nth(most).is_some() {
        out.push('…');
    }
    out
}

/// Whether a letter can be printed and does nothing else: no control character, no change of direction, no number that
/// stands for no letter.
pub fn is_printable(letter: char) -> bool {
    // What can be printed is escaped as itself, or with a backslash before it.
    !letter.is_control() && letter.escape_debug().len() <= 2
}

/// The candidate most like `name`, if any is like it: written in another case, or a typing error or two away. Of equally
/// near ones the one whose length is nearest, so that `h20` means `h200` rather than `h100`.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_ascii_lowercase();
    let most = (name.chars().count() / 3).clamp(1, 3);
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&lower, &candidate.to_ascii_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, candidate)| (*distance, candidate.len().abs_diff(name.len()), *candidate))
        .map(|(_, candidate)| candidate)
}

/// `did you mean X? `, or nothing: the start of a `help:` line.
pub fn did_you_mean<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, candidates).map(|near| format!("did you mean `{near}`? ")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found_in_any_case_and_a_stranger_finds_none() {
        let names = ["a100", "b200", "gb200", "h100", "h200", "megatron-tp"];
        assert_eq!(nearest("h20", names), Some("h200"));
        assert_eq!(nearest("H200", names), Some("h200"));
        assert_eq!(nearest("megatron_tp", names), Some("megatron-tp"));
        assert_eq!(nearest("tpu", names), None);
        assert_eq!(nearest("", names), None);
    }

    #[test]
    fn quoted_text_is_short_and_harmless() {
        assert_eq!(shown("a\x1b[31mb\n"), "a\\u{1b}[31mb\\n");
        assert_eq!(shown(&"x".repeat(100)).chars().count(), SHOWN + 1);
        assert_eq!(shown_up_to("a\tbc", 3), "a\\tb…");
        assert_eq!(shown("`count > 0' failed"), "`count > 0' failed");
    }
}
