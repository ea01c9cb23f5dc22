//! Patterns for names: `*` stands for any text, `?` for any one character, case does not matter.

use std::fmt;

/// A pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob(String);

impl Glob {
    /// Takes any text as a pattern.
    pub fn new(pattern: &str) -> Self {
        Self(pattern.to_owned())
    }

    /// Whether the whole of `text` fits.
    pub fn fits(&self, text: &str) -> bool {
        let pattern: Vec<char> = self.0.to_lowercase().chars().collect();
        let text: Vec<char> = text.to_lowercase().chars().collect();
        fits(&pattern, &text)
    }

    /// Whether a GPU's product name fits, as the driver writes it or without the maker's name: drivers write `NVIDIA H200`,
    /// and wrote `Tesla V100-SXM2-32GB`.
    pub fn fits_model(&self, model: &str) -> bool {
        let bare = ["NVIDIA ", "Tesla ", "AMD "].iter().find_map(|maker| model.strip_prefix(maker));
        self.fits(model) || bare.is_some_and(|bare| self.fits(bare))
    }

    /// How many characters it names: the larger, the more it says.
    pub fn weight(&self) -> usize {
        self.0.chars().filter(|c| !"*?".contains(*c)).count()
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Goes through both once; on a misfit the last `*` takes one character more. Never slower than pattern × text.
fn fits(pattern: &[char], text: &[char]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while let Some(c) = text.get(t) {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(q) if *q == '?' || q == c => (p, t) = (p + 1, t + 1),
            _ => {
                let Some((star_p, star_t)) = star else { return false };
                star = Some((star_p, star_t + 1));
                (p, t) = (star_p + 1, star_t + 1);
            }
        }
    }
    pattern.iter().skip(p).all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_fit_with_and_without_the_makers_name() {
        for (pattern, model, expected) in [
            ("H200*", "NVIDIA H200", true),
            ("H200*", "NVIDIA H200 NVL", true),
            ("H200*", "NVIDIA GH200 480GB", false),
            ("NVIDIA H100*", "NVIDIA H100 80GB HBM3", true),
            ("a100*", "NVIDIA A100-SXM4-80GB", true),
            ("B200*", "NVIDIA GB200", false),
            ("V100*", "Tesla V100-SXM2-32GB", true),
            ("*", "", true),
            ("H?00", "H200", true),
            ("*a*b*c", "xxaxxbxxbc", true),
            ("*a*b*c", "xxaxxbxxb", false),
        ] {
            assert_eq!(Glob::new(pattern).fits_model(model), expected, "{pattern} {model}");
        }
    }

    #[test]
    fn many_stars_take_no_time() {
        let pattern = Glob::new(&"*a".repeat(32));
        assert!(!pattern.fits(&"a".repeat(31)));
        assert!(!pattern.fits(&format!("{}b", "a".repeat(4000))));
    }
}
