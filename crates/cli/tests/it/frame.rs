//! The frame: help, wrong usage, man pages and completions.

use crate::common::{gpu_tune, scratch};
use std::fs;

#[test]
fn without_a_verb_it_explains_itself_and_calls_that_wrong_usage() {
    let output = gpu_tune(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    assert!(String::from_utf8_lossy(&output.stderr).contains("Usage: gpu-tune"));
}

#[test]
fn an_unknown_verb_is_wrong_usage() {
    let output = gpu_tune(&["tune"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("unrecognized subcommand 'tune'"));
}

#[test]
fn manual_writes_a_page_for_every_public_verb_and_a_completion_for_every_shell() {
    let prefix = scratch("manual");
    assert!(gpu_tune(&["manual", &prefix.to_string_lossy()]).status.success());
    for verb in gpu_tune_cli::command().get_subcommands().filter(|verb| !verb.is_hide_set()) {
        let path = prefix.join(format!("share/man/man1/gpu-tune-{}.1", verb.get_name()));
        let page = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(page.contains(".SH OPTIONS"), "{page}");
    }
    assert!(!prefix.join("share/man/man1/gpu-tune-manual.1").exists());
    let shells = [
        "share/bash-completion/completions/gpu-tune",
        "share/zsh/site-functions/_gpu-tune",
        "share/fish/vendor_completions.d/gpu-tune.fish",
    ];
    for path in shells {
        assert!(fs::read_to_string(prefix.join(path)).is_ok_and(|text| text.contains("gpu-tune")), "{path}");
    }
}

#[test]
fn manual_says_where_it_could_not_write() {
    let output = gpu_tune(&["manual", "/dev/null"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "gpu-tune: error: cannot write `/dev/null/share/man/man1`: Not a directory (os error 20)\n"
    );
}
