//! The table as a page of the documentation.

use super::shipped;
use super::{CLASHES, Class, KNOWN, Known, Takes, Trait};

/// The generated part of docs/profiles.md: the table, what the built-in profiles set, and sources.
pub fn markdown() -> String {
    let mut page = String::from("| variable | takes | class | reads it | what it is for |\n|---|---|---|---|---|\n");
    page.extend(KNOWN.iter().map(row));
    page.push_str("\nThese do not go together:\n\n| | | why |\n|---|---|---|\n");
    page.extend(CLASHES.iter().map(|(one, other, why)| format!("| `{one}` | `{other}` | {why} |\n")));
    page.push_str(&shipped::markdown());
    page
}

fn row(known: &Known) -> String {
    let reads = match (known.since, known.until) {
        ("", "") => String::new(),
        (since, "") => format!("from {since} on"),
        ("", until) => format!("up to {until}"),
        (since, until) => format!("{since} to {until}"),
    };
    let class = std::iter::once(known.class.as_str()).chain(known.traits.iter().map(trait_word));
    let class = class.collect::<Vec<_>>().join(", ");
    format!("| `{}` | {} | {class} | {reads} | {} |\n", known.name, takes(known.takes), known.about)
}

fn trait_word(mark: &Trait) -> &'static str {
    match mark {
        Trait::Network => "network",
        Trait::Uniform => "equal on all nodes",
        Trait::Pins => "pins",
        Trait::AgainstRebinding => "against re-binding",
        Trait::List => "list",
        Trait::Dangerous => "dangerous",
    }
}

fn takes(takes: Takes) -> String {
    match takes {
        Takes::Int(low, i64::MAX) => format!("≥ {low}"),
        Takes::Int(0, 1) => "0 or 1".to_owned(),
        Takes::Int(low, high) => format!("{low} to {high}"),
        Takes::Ints(low, high) => format!("list of {low} to {high}"),
        Takes::Word(words) => words.join(" "),
        Takes::Words(words) => format!("list of {}", words.join(" ")),
        Takes::Text => "text".to_owned(),
    }
}

impl Class {
    /// What the class means, for the documentation.
    pub fn about(self) -> &'static str {
        match self {
            Self::System => "describes the machine or the network",
            Self::Debug => "for finding faults; in a profile it needs `allow_debug = true`, and a reason",
            Self::Workload => "depends on what the job computes: for a layer, not for a GPU's profile",
            Self::Process => "belongs to every process",
        }
    }
}

#[cfg(test)]
mod tests {
    /// The page; what follows this line is made from the table.
    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/profiles.md");
    const MARK: &str = "<!-- From here on made from the table of known variables: GPU_TUNE_UPDATE_DOCS=1 cargo test -p gpu-tune-engine -->\n";

    #[test]
    fn the_page_of_variables_is_what_the_table_says() {
        let page = std::fs::read_to_string(PAGE).unwrap();
        let (head, _) = page.split_once(MARK).expect("the mark");
        let wanted = format!("{head}{MARK}\n{}", super::markdown());
        if std::env::var_os("GPU_TUNE_UPDATE_DOCS").is_some() {
            std::fs::write(PAGE, &wanted).unwrap();
            return;
        }
        assert!(page == wanted, "docs/profiles.md is out of date: its mark says how to make it anew");
    }

    #[test]
    fn the_page_names_every_class_and_what_it_means() {
        let page = std::fs::read_to_string(PAGE).unwrap();
        for class in [super::Class::System, super::Class::Debug, super::Class::Workload, super::Class::Process] {
            let line = format!("- {}: {}\n", class.as_str(), class.about());
            assert!(page.contains(&line), "{line}");
        }
    }
}
