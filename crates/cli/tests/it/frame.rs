//! The frame: help, wrong usage, man pages and completions.

use crate::common::{gpu_tune, scratch};
use std::fs;
use std::path::Path;
use std::process::Command;

const SHELLS: [&str; 3] = [
    "share/bash-completion/completions/gpu-tune",
    "share/zsh/site-functions/_gpu-tune",
    "share/fish/vendor_completions.d/gpu-tune.fish",
];

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
    for path in SHELLS {
        assert!(fs::read_to_string(prefix.join(path)).is_ok_and(|text| text.contains("gpu-tune")), "{path}");
    }
}

/// What bash offers for the last of the words, by the completion that it has for the command `gpu-tune`.
fn offered(file: &Path, words: &[&str]) -> String {
    let script = r#"
        source "$1"; shift
        [[ $(complete -p gpu-tune) =~ -F\ ([^ ]+) ]] || exit 1
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        ${BASH_REMATCH[1]} "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        echo "${COMPREPLY[*]}"
    "#;
    let output = Command::new("bash").args(["--norc", "-c", script, "bash"]).arg(file).args(words).output();
    let output = output.expect("bash starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

#[test]
fn bash_offers_what_stands_behind_a_verb_and_nothing_hidden() {
    let prefix = scratch("completion");
    assert!(gpu_tune(&["manual", &prefix.to_string_lossy()]).status.success());
    let file = prefix.join(SHELLS[0]);
    for (words, expect) in [
        (&["plan", "--bi"] as &[&str], "--bind"),
        (&["plan", "--bind", ""], "exclusive numa socket off"),
        (&["profile", "s"], "show"),
        (&["profile", "show", "--topo"], "--topology"),
        (&["d"], "doctor"),
        (&["m"], ""),
        (&["read"], ""),
        (&["help", "m"], ""),
        (&["bench", "--cu"], ""),
        (&["doctor", "--ro"], ""),
        (&["verify", "--pr"], ""),
    ] {
        assert_eq!(offered(&file, &[&["gpu-tune"], words].concat()), expect, "{words:?}");
    }
    let options = offered(&file, &["gpu-tune", "exec", "--"]);
    assert!(options.contains("--topology") && options.contains("--profile-dir"), "{options}");
}

#[test]
fn no_shell_offers_what_is_hidden() {
    let prefix = scratch("completion-hidden");
    assert!(gpu_tune(&["manual", &prefix.to_string_lossy()]).status.success());
    for path in SHELLS {
        let text = fs::read_to_string(prefix.join(path)).expect("the completion");
        let option = |name: &str| {
            let mut words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
            words.any(|word| word == format!("--{name}")) || text.contains(&format!("-l {name} "))
        };
        let verb = |name: &str| {
            let ways = [format!(",{name})"), format!("'{name}:"), format!("-a \"{name}\"")];
            ways.iter().any(|way| text.contains(way))
        };
        assert!(option("nvml") && verb("doctor"), "{path}");
        for hidden in ["cuda", "root", "proc"] {
            assert!(!option(hidden), "{path}: {hidden}");
        }
        assert!(!verb("manual") && !verb("read-xml"), "{path}");
    }
}

#[test]
fn lists_are_lists_in_the_man_pages() {
    let prefix = scratch("manual-lists");
    assert!(gpu_tune(&["manual", &prefix.to_string_lossy()]).status.success());
    let page = fs::read_to_string(prefix.join("share/man/man1/gpu-tune-doctor.1")).expect("the page");
    assert_eq!(page.matches("\n.IP \\(bu 2\n").count(), 5, "{page}");
    assert!(page.contains(".IP \\(bu 2\nkernel: locked memory"), "{page}");
    assert!(!page.contains("\n ") && !page.contains("\n\\- "), "{page}");
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
