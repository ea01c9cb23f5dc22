//! `gpu-tune profile` as a person and as a site's CI meet it.

use crate::common::{gpu_tune, scratch, told, topology};
use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// A directory with files that only we can write.
fn files(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let dir = scratch(name);
    fs::set_permissions(&dir, Permissions::from_mode(0o755)).expect("a mode");
    for (file, text) in files {
        let path = dir.join(file);
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("a mode");
    }
    dir
}

/// What the program says, with the directory's name taken out.
fn says(dir: &Path, args: &[&str]) -> String {
    let dir = dir.to_str().expect("text");
    let args: Vec<&str> = args.iter().map(|arg| if *arg == "DIR" { dir } else { arg }).collect();
    told(&gpu_tune(&args)).replace(dir, "DIR")
}

fn json(args: &[&str]) -> Value {
    let output = gpu_tune(args);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", told(&output)))
}

const BAD: &str = "inherits = \"h200\"
[bind]
mem-policy = \"preferred\"
[env]
NCCL_BUFFSIZE = \"16M\"
NCCL_DEBGU = \"INFO\"
CUDA_DEVICE_MAX_CONNECTIONS = \"1\"
";

#[test]
fn check_shows_each_fault_with_its_line_and_exits_1() {
    let dir = files("check-bad", &[("bad.toml", BAD), ("broken.toml", "[env\nA = 1\n")]);
    insta::assert_snapshot!("check_bad", says(&dir, &["profile", "check", "DIR"]));
}

/// A profile in a manual is a block of indented lines that begins with its description.
fn examples(manual: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(manual);
    let text = fs::read_to_string(path).expect("the manual");
    let mut blocks = vec![String::new()];
    for line in text.lines() {
        match (line.strip_prefix("    "), blocks.last_mut()) {
            (Some(line), Some(block)) => *block += &format!("{line}\n"),
            (None, Some(block)) if line.is_empty() && !block.is_empty() => block.push('\n'),
            (None, _) => blocks.push(String::new()),
            (Some(_), None) => {}
        }
    }
    blocks.retain(|block| block.starts_with("description = "));
    blocks
}

#[test]
fn the_examples_of_the_manuals_have_nothing_to_find() {
    let examples = ["admin.md", "profiles.md"].map(examples).concat();
    assert_eq!(examples.len(), 3);
    for text in examples {
        let dir = files("check-manual", &[("mine.toml", &text)]);
        let told = says(&dir, &["profile", "check", "DIR"]);
        assert_eq!(told, "exit 0\n--- stdout\n1 file: 0 errors, 0 warnings\n--- stderr\n", "{text}");
    }
}

#[test]
fn check_goes_on_behind_an_error() {
    let text = "inherits = \"nosuch\"\n[bind]\ncpu = 1\n[env]\nOMP_NUM_THREADS = \"x\"\nNCCL_DEBGU = \"INFO\"\n";
    let dir = files("check-on", &[("bad.toml", text)]);
    let value = json(&["profile", "check", "--json", dir.to_str().expect("text")]);
    let lines: Vec<_> = value["findings"].as_array().expect("findings").iter().map(|found| &found["line"]).collect();
    assert_eq!(lines, [1, 3, 5, 6], "{value}");
}

#[test]
fn check_with_warnings_only_exits_0() {
    let dir = files("check-warn", &[("warn.toml", "[env]\nOMP_PROC_BIND = \"close\"\n")]);
    insta::assert_snapshot!("check_warn", says(&dir, &["profile", "check", "DIR"]));
}

#[test]
fn check_knows_the_files_beside_the_one_it_looks_at() {
    let dir = files("check-beside", &[("lower.toml", "x = 1\n"), ("p.toml", "inherits = \"lower\"\n")]);
    let file = dir.join("p.toml");
    let told = told(&gpu_tune(&["profile", "check", file.to_str().expect("text")]));
    assert_eq!(told, "exit 0\n--- stdout\n1 file: 0 errors, 0 warnings\n--- stderr\n");
}

#[test]
fn check_reports_files_that_others_can_write_unless_they_are_not_installed_yet() {
    let dir = files("check-mode", &[("p.toml", "description = \"fine\"\n")]);
    fs::set_permissions(dir.join("p.toml"), Permissions::from_mode(0o666)).expect("a mode");
    insta::assert_snapshot!("check_mode", says(&dir, &["profile", "check", "DIR"]));
    let fine = says(&dir, &["profile", "check", "--ignore-owner", "DIR"]);
    assert!(fine.starts_with("exit 0\n"), "{fine}");
}

#[test]
fn check_writes_the_same_as_json() {
    let dir = files("check-json", &[("bad.toml", BAD)]);
    let value = json(&["profile", "check", "--json", dir.to_str().expect("text")]);
    assert_eq!((&value["errors"], &value["warnings"], &value["files"]), (&2.into(), &3.into(), &1.into()), "{value}");
    let first = &value["findings"][0];
    assert_eq!((&first["level"], &first["line"], &first["column"]), (&"error".into(), &3.into(), &1.into()));
}

#[test]
fn check_of_nothing_is_no_success() {
    let dir = files("check-none", &[]);
    assert_eq!(
        says(&dir, &["profile", "check", "DIR"]),
        "exit 1\n--- stdout\n--- stderr\ngpu-tune: error: `DIR` holds no profile\n"
    );
    let missing = says(&dir.join("none"), &["profile", "check", "DIR"]);
    assert!(missing.starts_with("exit 1\n") && missing.contains("cannot read `DIR`: No such file"), "{missing}");
    let passwd = says(&dir, &["profile", "check", "/etc/passwd"]);
    assert!(passwd.starts_with("exit 2\n") && passwd.contains("`/etc/passwd` is no profile"), "{passwd}");
    let odd = files("check-odd", &[("Bad Name.toml", "")]);
    let told = says(&odd, &["profile", "check", "DIR"]);
    assert!(told.starts_with("exit 1\n") && told.contains("no profile can have this name"), "{told}");
}

#[test]
fn list_names_what_is_built_in_and_what_the_admin_has() {
    let net = "layer = true\ndescription = \"our network\"\n";
    let dir = files("list", &[("h200.toml", "description = \"ours\"\n"), ("net.toml", net)]);
    insta::assert_snapshot!("list", says(&dir, &["profile", "list", "--profile-dir", "DIR"]));
}

#[test]
fn list_says_why_a_file_cannot_be_used() {
    let dir = files("list-odd", &[("odd.toml", "[bind]\ncpu = 1\n")]);
    let listed = json(&["profile", "list", "--json", "--profile-dir", dir.to_str().expect("text")]);
    let odd = listed["profiles"].as_array().expect("a list").iter().find(|entry| entry["name"] == "odd");
    let error = odd.expect("the odd one")["error"].as_str().expect("text").to_owned();
    assert!(error.ends_with("odd.toml:2:7: expected a string, found `1`"), "{error}");
    let dir = files("list-loop", &[("a.toml", "inherits = \"b\"\n"), ("b.toml", "inherits = \"a\"\n")]);
    let listed = says(&dir, &["profile", "list", "--profile-dir", "DIR"]);
    assert_eq!(listed.matches("inherits itself: ").count(), 2, "{listed}");
}

#[test]
fn diff_shows_what_differs_and_its_status_says_whether_something_does() {
    let dir = files(
        "diff",
        &[(
            "mine.toml",
            "inherits = \"h200\"\n[env]\nNCCL_DEBUG = { value = \"INFO\", when = { nodes = \"1\" } }\n[bind]\nsmt = \"one\"\n",
        )],
    );
    insta::assert_snapshot!("diff", says(&dir, &["profile", "diff", "h200", "mine", "--profile-dir", "DIR"]));
    assert_eq!(
        says(&dir, &["profile", "diff", "mine", "mine", "--profile-dir", "DIR"]),
        "exit 0\n--- stdout\n--- stderr\n"
    );
    let unknown = says(&dir, &["profile", "diff", "h200", "h20"]);
    assert!(unknown.starts_with("exit 2\n") && unknown.contains("did you mean `h200`?"), "{unknown}");
}

#[test]
fn show_tells_what_is_set_what_is_not_and_why() {
    let Some(file) = topology("hgx-h100-8gpu.xml") else { return };
    let ours = "[env]\nNCCL_DEBUG = { value = \"VERSION\", action = \"force\" }\nLD_LIBRARY_PATH = { value = \"/opt/lib\", action = \"append\" }\n[limits]\nmemlock = \"unlimited\"\n";
    let dir = files("show", &[("ours.toml", ours)]);
    let args = ["profile", "show", "h100+roce+ours,bind=numa", "--topology", &file, "--profile-dir", "DIR"];
    insta::assert_snapshot!("show", says(&dir, &args));
    let value = json(&["profile", "show", "h100", "--nodes", "2", "--json", "--topology", &file]);
    let buffer = value["env"].as_array().expect("a list").iter().find(|object| object["name"] == "NCCL_BUFFSIZE");
    let buffer = buffer.expect("the buffer's size");
    assert_eq!((&buffer["value"], &buffer["from"]), (&"8388608".into(), &"profile h100".into()));
}

#[test]
fn show_of_a_profile_that_does_not_exist_is_wrong_usage() {
    let told = told(&gpu_tune(&["profile", "show", "h20"]));
    assert!(told.starts_with("exit 2\n") && told.contains("unknown profile `h20`"), "{told}");
}
