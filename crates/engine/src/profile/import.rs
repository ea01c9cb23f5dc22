//! `import`: values from a file that somebody else keeps up to date, such as the NCCL settings that a cloud's driver package
//! brings along. It is read when the profile is, instead of being copied into it once.
//!
//! Lines are `NAME=VALUE` or `export NAME=VALUE`, with or without quotes. What would need a shell is passed over and told: no
//! shell runs as root for a profile.

use super::finding::Source;
use super::{Action, Finding, Kind, Origin, Rule, Template, When, bounds, refused};
use std::sync::Arc;

/// Signs that mean something to a shell.
const SHELL: &[char] = &['$', '`', '\\', ';', '&', '|', '(', ')', '<', '>', '"', '\''];

/// The rules that a file's lines come to, sorted by name, and what is odd in it.
pub(super) fn read(text: &str, source: &Source, layer: &Arc<str>) -> (Vec<Rule>, Vec<Finding>) {
    let (mut rules, mut odd) = (Vec::<Rule>::new(), Vec::new());
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        match setting(line) {
            _ if line.is_empty() || line.starts_with('#') => {}
            Some((name, value)) if rules.len() < bounds::VARIABLES => {
                rules.retain(|rule| *rule.name != *name);
                rules.push(rule(name, value, index + 1, source, layer));
            }
            _ => odd.push(index + 1),
        }
    }
    rules.sort_by(|a, b| a.name.cmp(&b.name));
    let findings = odd.first().map(|first| passed_over(*first, odd.len(), source)).into_iter().collect();
    (rules, findings)
}

fn setting(line: &str) -> Option<(&str, &str)> {
    let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
    let (name, value) = line.split_once('=')?;
    let quoted = |quote: char| value.strip_prefix(quote).and_then(|value| value.strip_suffix(quote));
    let plain = quoted('"').or_else(|| quoted('\'')).or((!value.contains(char::is_whitespace)).then_some(value))?;
    let fits = name.len() <= bounds::NAME && plain.len() <= bounds::VALUE && refused::is_variable(name);
    let harmless = !plain.contains(SHELL) && !plain.contains(char::is_control) && refused::always(name).is_none();
    (fits && harmless).then_some((name, plain))
}

fn rule(name: &str, value: &str, line: usize, source: &Source, layer: &Arc<str>) -> Rule {
    Rule {
        name: name.into(),
        action: Action::Default,
        value: Template::text(value),
        at_most: None,
        separator: ":".to_owned(),
        uniform: false,
        when: When::default(),
        origin: Origin { layer: layer.clone(), file: source.file.clone(), line, column: 1, builtin: false },
    }
}

fn passed_over(first: usize, count: usize, source: &Source) -> Finding {
    let message = match count {
        1 => "this line is passed over: it is no plain setting".to_owned(),
        count => format!("{count} lines from here on are passed over: they are no plain settings"),
    };
    let help = Some("lines are `NAME=VALUE`; nothing that needs a shell".to_owned());
    Finding { kind: Kind::Warning, file: source.file.clone(), line: first, column: 1, width: 1, message, help }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_settings_are_taken_and_what_needs_a_shell_is_passed_over() {
        let text = "#!/bin/bash\nexport NCCL_NET=gIB\nNCCL_CROSS_NIC=0\n\n  export NCCL_IB_TC=\"52\"\nNCCL_DEBUG='INFO'\n\
                    export LD_LIBRARY_PATH=/x:$LD_LIBRARY_PATH\nif true; then\nNCCL_NET=IB\nCUDA_VISIBLE_DEVICES=0\nA=b c\n";
        let source = Source { file: "/opt/env.sh".into(), builtin: false };
        let (rules, findings) = read(text, &source, &"p".into());
        let rules: Vec<String> =
            rules.iter().map(|rule| format!("{}={} {}", rule.name, rule.value, rule.origin)).collect();
        assert_eq!(
            rules,
            [
                "NCCL_CROSS_NIC=0 /opt/env.sh:3",
                "NCCL_DEBUG=INFO /opt/env.sh:6",
                "NCCL_IB_TC=52 /opt/env.sh:5",
                "NCCL_NET=IB /opt/env.sh:9"
            ]
        );
        let told = "/opt/env.sh:7:1: 4 lines from here on are passed over: they are no plain settings";
        assert_eq!(findings.iter().map(ToString::to_string).collect::<Vec<_>>(), [told]);
    }
}
