//! `[env]`: each variable a value, a table, or a list of tables of which the first that applies counts.

use super::file::{each, globs};
use super::toml_reader::{Key, Reader, Value};
use super::when::{Comparison, Condition, count, release};
use super::{Action, Glob, Origin, Rule, Source, Template, When, bounds, refused};
use crate::machine::LinkLayer;
use crate::text::shown;
use std::sync::Arc;
use toml::de::DeValue;

const RULE: &[&str] = &["value", "action", "at_most", "when", "uniform", "separator"];
const WHEN: &[&str] = &["gpu", "nodes", "tasks_per_node", "link_layer", "container", "arch", "slurm_version"];

/// Reads `[env]`.
pub(super) fn read(reader: &mut Reader<'_>, value: &Value<'_>, layer: &Arc<str>, source: &Source) -> Vec<Rule> {
    let Some(table) = reader.table(value) else { return Vec::new() };
    if table.len() > bounds::VARIABLES {
        let message = format!("{} variables, at most {} are taken", table.len(), bounds::VARIABLES);
        reader.error(value.span(), message, None);
        return Vec::new();
    }
    let mut rules = Vec::new();
    for (key, value) in table {
        let Some(name) = name(reader, key) else { continue };
        let origin = |reader: &Reader<'_>, place: &std::ops::Range<usize>| {
            let (line, column) = reader.position(place);
            Origin { layer: layer.clone(), file: source.file.clone(), line, column, builtin: source.builtin }
        };
        match value.get_ref() {
            DeValue::Array(items) if items.len() <= bounds::LIST => {
                for item in items {
                    let origin = origin(reader, &item.span());
                    rules.extend(rule(reader, &name, item, origin));
                }
            }
            DeValue::Array(_) => reader.error(value.span(), format!("at most {} items are taken", bounds::LIST), None),
            _ => {
                let origin = origin(reader, &key.span());
                rules.extend(rule(reader, &name, value, origin));
            }
        }
    }
    rules
}

/// A name that a variable can have and that a profile may set.
fn name(reader: &mut Reader<'_>, key: &Key<'_>) -> Option<Arc<str>> {
    let name = key.get_ref().as_ref();
    if !refused::is_variable(name) || name.len() > bounds::NAME {
        reader.error(key.span(), format!("`{}` cannot be the name of a variable", shown(name)), None);
        return None;
    }
    if let Some(reason) = refused::always(name) {
        reader.error(key.span(), format!("a profile may not set `{name}`: {reason}"), None);
        return None;
    }
    Some(name.into())
}

/// One value: plain, or a table.
fn rule(reader: &mut Reader<'_>, name: &Arc<str>, value: &Value<'_>, origin: Origin) -> Option<Rule> {
    let mut rule = Rule {
        name: name.clone(),
        action: Action::Default,
        value: Template::text(""),
        at_most: None,
        separator: ":".to_owned(),
        uniform: false,
        when: When::default(),
        origin,
    };
    if !value.get_ref().is_table() {
        rule.value = template(reader, value)?;
        return Some(rule);
    }
    let mut given = false;
    let place = format!("of `{name}`");
    each(reader, value, &place, RULE, |reader, key, value| match key {
        "value" => {
            given = true;
            rule.value = template(reader, value).unwrap_or_else(|| Template::text(""));
        }
        "action" => rule.action = reader.word(value).unwrap_or_default(),
        "at_most" => rule.at_most = template(reader, value),
        "when" => rule.when = when(reader, value),
        "uniform" => rule.uniform = reader.boolean(value).unwrap_or_default(),
        _ => rule.separator = reader.string(value, bounds::VALUE).unwrap_or_default(),
    });
    complete(reader, value, &rule, given).then_some(rule)
}

/// Whether the parts of a table fit together.
fn complete(reader: &mut Reader<'_>, value: &Value<'_>, rule: &Rule, given: bool) -> bool {
    let fault = match rule.action {
        Action::Unset if given => "`unset` takes no `value`",
        Action::Unset => return true,
        _ if !given => "`value` is missing",
        Action::Prepend | Action::Append if rule.separator.is_empty() => "an empty `separator` glues items together",
        Action::Prepend | Action::Append if rule.at_most.is_some() => "`at_most` is for numbers, not for lists",
        _ => return numbers(reader, value, rule),
    };
    reader.error(value.span(), fault, None);
    false
}

/// With `at_most` both must be numbers, as far as that can be seen before a job runs.
fn numbers(reader: &mut Reader<'_>, value: &Value<'_>, rule: &Rule) -> bool {
    let Some(at_most) = &rule.at_most else { return true };
    let odd = [&rule.value, at_most].into_iter().filter_map(Template::constant).find(|text| count(text).is_none());
    if let Some(odd) = &odd {
        reader.error(value.span(), format!("with `at_most` the values are whole numbers, not `{}`", shown(odd)), None);
    }
    odd.is_none()
}

fn template(reader: &mut Reader<'_>, value: &Value<'_>) -> Option<Template> {
    let text = reader.scalar(value)?;
    match Template::parse(&text) {
        Ok(template) => Some(template),
        Err(error) => {
            reader.error(value.span(), error.message, Some(error.help));
            None
        }
    }
}

fn when(reader: &mut Reader<'_>, value: &Value<'_>) -> When {
    let mut conditions = Vec::new();
    each(reader, value, "in `when`", WHEN, |reader, key, value| {
        conditions.extend(match key {
            "gpu" => some(globs(reader, value)).map(Condition::Gpu),
            "nodes" => number(reader, value, count, "`>1`").map(Condition::Nodes),
            "tasks_per_node" => number(reader, value, count, "`>1`").map(Condition::TasksPerNode),
            "link_layer" => link_layers(reader, value).map(Condition::LinkLayer),
            "container" => reader.boolean(value).map(Condition::Container),
            "arch" => some(globs(reader, value)).map(Condition::Arch),
            _ => number(reader, value, release, "`>=23.11`").map(Condition::SlurmVersion),
        });
    });
    When(conditions)
}

fn some(globs: Vec<Glob>) -> Option<Vec<Glob>> {
    (!globs.is_empty()).then_some(globs)
}

fn number<T: PartialOrd + Copy>(
    reader: &mut Reader<'_>,
    value: &Value<'_>,
    read: impl Fn(&str) -> Option<T>,
    example: &str,
) -> Option<Comparison<T>> {
    let text = reader.scalar(value)?;
    let comparison = Comparison::parse(&text, read);
    if comparison.is_none() {
        let message = format!("expected a comparison like {example}, found `{}`", shown(&text));
        reader.error(value.span(), message, None);
    }
    comparison
}

fn link_layers(reader: &mut Reader<'_>, value: &Value<'_>) -> Option<Vec<LinkLayer>> {
    let texts = reader.strings(value)?;
    let layers: Option<Vec<_>> = texts
        .iter()
        .map(|text| match text.as_str() {
            "infiniband" => Some(LinkLayer::Infiniband),
            "ethernet" => Some(LinkLayer::Ethernet),
            "other" => Some(LinkLayer::Other),
            _ => None,
        })
        .collect();
    if layers.as_ref().is_none_or(Vec::is_empty) {
        reader.error(value.span(), "expected `infiniband`, `ethernet` or `other`", None);
        return None;
    }
    layers
}
