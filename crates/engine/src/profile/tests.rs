//! Files, catalog and resolving, through their public faces.

use super::*;
use crate::machine::LinkLayer;
use crate::plan::Reserve;
use crate::spec::{CpuPolicy, MemPolicy, Rendezvous, SiteConfig, Smt, Spec};
use crate::testing::TempDir;

fn source(name: &str) -> Source {
    Source { file: format!("{name}.toml").into(), builtin: false }
}

fn parse(text: &str) -> Profile {
    let (profile, findings) = Profile::parse("p", &source("p"), text);
    profile.unwrap_or_else(|| panic!("{findings:?}"))
}

/// All findings of a file, one text each: position, message, help.
fn findings(text: &str) -> Vec<String> {
    let (_, findings) = Profile::parse("p", &source("p"), text);
    let told = |finding: &Finding| match &finding.help {
        Some(help) => format!("{finding} | {help}"),
        None => finding.to_string(),
    };
    findings.iter().map(told).collect()
}

/// The built-in profiles and some files.
fn catalog(files: &[(&str, &str)]) -> Catalog {
    let mut catalog = Catalog::builtin();
    for (name, text) in files {
        catalog.add_text(name, source(name), (*text).to_owned());
    }
    catalog
}

fn spec(text: &str) -> Spec {
    text.parse().unwrap()
}

fn site(words: &[&str]) -> SiteConfig {
    SiteConfig::parse(words).unwrap()
}

fn h200(nodes: u32) -> Facts {
    Facts { gpus: vec!["NVIDIA H200".into(); 8], nodes: Some(nodes), arch: "x86_64".into(), ..Facts::default() }
}

fn resolve(catalog: &Catalog, option: &str, facts: &Facts) -> Resolved {
    catalog.resolve(&spec(option), &site(&[]), facts).unwrap().unwrap()
}

/// `NAME=VALUE` of every rule that applies.
fn values(resolved: &Resolved) -> Vec<String> {
    resolved.env.iter().map(|rule| format!("{}={}", rule.name, rule.value)).collect()
}

fn messages(resolved: &Resolved) -> Vec<&str> {
    resolved.notices.iter().map(|notice| notice.message.as_str()).collect()
}

#[test]
fn every_key_of_the_form_is_read() {
    let profile = parse(
        r#"
description = "8×H200"
inherits = "base"
gpu = ["H200*"]
allow_debug = true

[env]
NCCL_BUFFSIZE = { value = "8388608", when = { nodes = ">1" }, uniform = true }
NCCL_IB_TC    = { value = 106, when = { link_layer = "ethernet" } }
NCCL_DEBUG    = { value = "WARN", action = "force" }
OMP_NUM_THREADS = { value = "4", at_most = "{cores}" }
OLD = { action = "unset" }
LIST = [{ value = "/a", action = "prepend" }, { value = "/b", action = "append", separator = "," }]

[bind]
cpu = "numa"
mem = "bind"
smt = "one"
reserve = "0-3,64"
prefer = "priority"

[limits]
memlock = "unlimited"

[launch]
workers = false
rendezvous = "off"

[machine.gpu_numa]
"0000:06:00.0" = 1

[fabric]
address_range = "10.1.0.0/16"
"#,
    );
    assert_eq!(profile.inherits, Some(Inherits { name: "base".into(), line: 3 }));
    assert_eq!(profile.gpu, [Glob::new("H200*")]);
    let rules: Vec<_> = profile.env.iter().map(|r| (&*r.name, r.action, r.value.to_string(), r.origin.line)).collect();
    assert_eq!(
        rules,
        [
            ("LIST", Action::Prepend, "/a".into(), 13),
            ("LIST", Action::Append, "/b".into(), 13),
            ("NCCL_BUFFSIZE", Action::Default, "8388608".into(), 8),
            ("NCCL_DEBUG", Action::Force, "WARN".into(), 10),
            ("NCCL_IB_TC", Action::Default, "106".into(), 9),
            ("OLD", Action::Unset, String::new(), 12),
            ("OMP_NUM_THREADS", Action::Default, "4".into(), 11),
        ]
    );
    assert!(profile.env[2].uniform && !profile.env[3].uniform);
    assert_eq!(profile.env[6].at_most.as_ref().unwrap().to_string(), "{cores}");
    let bind = &profile.bind;
    assert_eq!((bind.cpu, bind.mem, bind.smt), (Some(CpuPolicy::Numa), Some(MemPolicy::Bind), Some(Smt::One)));
    assert_eq!(bind.reserve, Some(Reserve::Cpus("0-3,64".parse().unwrap())));
    assert_eq!(bind.prefer_priority, Some(true));
    assert_eq!((profile.memlock, profile.workers), (Some(Memlock::Unlimited), Some(false)));
    assert_eq!(profile.rendezvous, Some(Rendezvous::Off));
    assert_eq!(profile.gpu_numa, [("06:00.0".parse().unwrap(), 1)].into());
    assert_eq!(profile.address_range.unwrap().to_string(), "10.1.0.0/16");
}

#[test]
fn an_unknown_key_is_named_with_its_place_and_the_nearest_one() {
    assert_eq!(
        findings("[bind]\nmem-policy = \"preferred\"\n"),
        ["p.toml:2:1: unknown key `mem-policy` in `[bind]` | known keys: cpu, mem, smt, reserve, prefer"]
    );
    assert!(
        findings("inherit = \"base\"")[0].contains("unknown key `inherit` in a profile | did you mean `inherits`?")
    );
    assert!(
        findings("[env]\nA = { valu = \"1\", value = \"1\" }")[0].starts_with("p.toml:2:7: unknown key `valu` of `A`")
    );
    assert!(findings("[env]\nA = { value = \"1\", when = { node = \">1\" } }")[0].contains("did you mean `nodes`?"));
    let (profile, findings) = Profile::parse("p", &source("p"), "x = 1\n[bind]\ncpu = \"numa\"");
    assert_eq!(findings[0].kind, Kind::Unknown);
    assert_eq!(profile.unwrap().bind.cpu, Some(CpuPolicy::Numa), "the rest of the file counts");
}

#[test]
fn a_fault_names_file_line_column_and_what_was_expected() {
    for (text, expected) in [
        ("description = \"é\"\n[bind]\nsmt = 1", "p.toml:3:7: expected a string, found `1`"),
        (
            "[bind]\ncpu = \"exclusiv\"",
            "p.toml:2:7: expected `exclusive`, `numa`, `socket` or `off`, found `exclusiv` | did you mean `exclusive`?",
        ),
        (
            "[bind]\nreserve = \"3-1\"",
            "p.toml:2:11: the range `3-1` ends before it begins | `reserve` is a list of CPUs like `0-3,64-67`, or `first-core-per-numa`",
        ),
        (
            "[bind]\nreserve = \"x\"",
            "p.toml:2:11: `x` is neither a number nor a range like `0-7` | `reserve` is a list of CPUs like `0-3,64-67`, or `first-core-per-numa`",
        ),
        ("[bind]\nprefer = \"fast\"", "p.toml:2:10: expected `priority` or nothing, found `fast`"),
        ("bind = 1", "p.toml:1:8: expected a table, found `1`"),
        ("gpu = [1]", "p.toml:1:8: expected a string, found `1`"),
        ("gpu = \"\"", "p.toml:1:7: an empty pattern fits nothing"),
        ("inherits = \"../x\"", "p.toml:1:12: expected the name of a profile, found `../x`"),
        ("[launch]\nworkers = \"yes\"", "p.toml:2:11: expected `true` or `false`, found `yes`"),
        (
            "[limits]\nmemlock = \"64G\"",
            "p.toml:2:11: expected `unlimited`, `user` or a size like `64GiB`, found `64G`",
        ),
        (
            "[fabric]\naddress_range = \"10.1\"",
            "p.toml:2:17: expected a range of addresses like `10.1.0.0/16`, found `10.1`",
        ),
        ("[machine.gpu_numa]\n\"x\" = 1", "p.toml:2:1: `x` is not a PCI address: expected one like `0000:4e:00.0`"),
        ("[machine.gpu_numa]\n\"06:00.0\" = -1", "p.toml:2:13: expected a whole number, found `-1`"),
        ("[env]\n\"A B\" = \"1\"", "p.toml:2:1: `A B` cannot be the name of a variable"),
        (
            "[env]\nA = true",
            "p.toml:2:5: expected a string, found a boolean | write \"1\" or \"0\", or whatever the program takes",
        ),
        ("[env]\nA = {}", "p.toml:2:5: `value` is missing"),
        ("[env]\nA = { action = \"unset\", value = \"1\" }", "p.toml:2:5: `unset` takes no `value`"),
        (
            "[env]\nA = { value = \"x\", at_most = \"{cores}\" }",
            "p.toml:2:5: with `at_most` the values are whole numbers, not `x`",
        ),
        (
            "[env]\nA = { value = \"1\", when = { nodes = \"many\" } }",
            "p.toml:2:37: expected a comparison like `>1`, found `many`",
        ),
        (
            "[env]\nA = { value = \"1\", when = { link_layer = \"wifi\" } }",
            "p.toml:2:42: expected `infiniband`, `ethernet` or `other`",
        ),
        ("[env]\nA = \"a\\u0007\"", "p.toml:2:5: a control character"),
        (
            "[env]\nCUDA_VISIBLE_DEVICES = \"0\"",
            "p.toml:2:1: a profile may not set `CUDA_VISIBLE_DEVICES`: which GPUs a task sees is Slurm's business",
        ),
        ("[env]\nSLURM_CPU_BIND = \"none\"", "p.toml:2:1: a profile may not set `SLURM_CPU_BIND`: it is Slurm's own"),
    ] {
        assert_eq!(findings(text), [expected], "{text}");
        assert!(Profile::parse("p", &source("p"), text).0.is_none(), "nothing of a faulty file is used: {text}");
    }
    let broken = findings("[env\nA = 1");
    assert!(broken[0].starts_with("p.toml:1:5: "), "{broken:?}");
    assert!(
        findings("[env]\nA = \"{core}\"")[0]
            .starts_with("p.toml:2:5: unknown placeholder `{core}` | did you mean `cores`?")
    );
}

#[test]
fn all_faults_of_a_file_are_told_at_once() {
    assert_eq!(findings("x = 1\n[bind]\ncpu = 1\nmem = 2\n").len(), 3);
}

#[test]
fn what_is_beyond_the_bounds_is_refused() {
    let many: String = (0..=bounds::VARIABLES).map(|n| format!("V{n} = \"1\"\n")).collect();
    assert!(findings(&format!("[env]\n{many}"))[0].contains("257 variables, at most 256 are taken"));
    let long = "x".repeat(bounds::VALUE + 1);
    assert!(findings(&format!("[env]\nA = \"{long}\""))[0].contains("4097 bytes, at most 4096 are taken"));
    let list = vec!["\"x\""; bounds::LIST + 1].join(",");
    assert!(findings(&format!("gpu = [{list}]"))[0].contains("65 items, at most 64 are taken"));
    assert!(!findings(&format!("x = {}1{}", "[".repeat(5000), "]".repeat(5000))).is_empty());
}

#[test]
fn layers_replace_from_left_to_right_and_keep_their_origin() {
    let files = [
        ("lower", "[env]\nA = \"1\"\nB = \"1\"\n[bind]\nmem = \"bind\"\ncpu = \"numa\""),
        ("p", "inherits = \"lower\"\n[env]\nB = \"2\"\nC = \"2\"\n[bind]\ncpu = \"socket\""),
        ("net", "[env]\nC = \"3\"\nD = \"3\""),
        ("top", "[env]\nD = \"4\""),
    ];
    let catalog = catalog(&files);
    let resolved = catalog.resolve(&spec("p+top"), &site(&["fabric=net"]), &h200(1)).unwrap().unwrap();
    assert_eq!(values(&resolved), ["A=1", "B=2", "C=3", "D=4"]);
    let origins: Vec<String> = resolved.env.iter().map(|rule| rule.origin.to_string()).collect();
    assert_eq!(origins, ["lower.toml:2", "p.toml:3", "net.toml:2", "top.toml:2"]);
    assert_eq!(resolved.name, "p+top");
    assert_eq!(resolved.layers.iter().map(|l| &**l).collect::<Vec<_>>(), ["lower", "p", "net", "top"]);
    assert_eq!((resolved.binding.cpu, resolved.binding.mem), (CpuPolicy::Socket, MemPolicy::Bind));
}

#[test]
fn a_layer_that_inherits_what_is_there_already_does_not_undo_the_profile() {
    let catalog = catalog(&[
        ("l", "inherits = \"base\"\n[env]\nA = \"1\""),
        ("p", "inherits = \"base\"\n[env]\nNCCL_DEBUG = \"INFO\""),
    ]);
    let resolved = resolve(&catalog, "p+l", &h200(1));
    assert!(values(&resolved).contains(&"NCCL_DEBUG=INFO".to_owned()));
}

#[test]
fn a_value_whose_condition_does_not_hold_leaves_the_lower_one_in_place_and_says_why() {
    let catalog = catalog(&[
        ("lower", "[env]\nA = \"1\""),
        ("p", "inherits = \"lower\"\n[env]\nA = { value = \"2\", when = { nodes = \">1\" } }"),
    ]);
    assert_eq!(values(&resolve(&catalog, "p", &h200(2))), ["A=2"]);
    let resolved = resolve(&catalog, "p", &h200(1));
    assert_eq!(values(&resolved), ["A=1"]);
    assert_eq!(resolved.skipped[0].origin.to_string(), "p.toml:3");
    assert_eq!(resolved.skipped[0].reason, "only for nodes >1, and here it is 1");
}

#[test]
fn of_alternatives_the_first_that_applies_counts() {
    let catalog = catalog(&[(
        "p",
        "[env]\nA = [{ value = \"32\", when = { gpu = \"B200*\" } }, { value = \"1\", when = { gpu = [\"H100*\", \"H200*\"] } }, \"8\"]",
    )]);
    let with = |model: &str| values(&resolve(&catalog, "p", &Facts { gpus: vec![model.into()], ..Facts::default() }));
    assert_eq!(with("NVIDIA B200"), ["A=32"]);
    assert_eq!(with("NVIDIA H100 80GB HBM3"), ["A=1"]);
    assert_eq!(with("NVIDIA L4"), ["A=8"]);
    assert!(resolve(&catalog, "p", &h200(1)).skipped.is_empty(), "what an alternative stands in for is not told");
}

#[test]
fn loops_are_refused_with_their_names() {
    let catalog = catalog(&[
        ("a", "inherits = \"b\""),
        ("b", "description = \"\"\ninherits = \"c\""),
        ("c", "inherits = \"b\""),
        ("h200", "inherits = \"h200\""),
        ("orphan", "\ninherits = \"h2000\""),
    ]);
    let said = |name: &str| catalog.lineage(name).unwrap_err();
    assert_eq!(said("a").to_string(), "profile `b` inherits itself: b → c → b (c.toml:1)");
    assert_eq!(said("h200").to_string(), "profile `h200` inherits itself: h200 → h200 (h200.toml:1)");
    assert_eq!(said("orphan").to_string(), "profile `orphan` inherits the unknown profile `h2000` (orphan.toml:2)");
    assert!(said("orphan").help().unwrap().starts_with("did you mean `h200`? installed: "));
}

#[test]
fn a_chain_that_is_too_long_is_refused() {
    let files: Vec<(String, String)> = (0..40)
        .map(|n| (format!("p{n}"), format!("inherits = \"p{}\"", n + 1)))
        .chain([("p40".into(), String::new())])
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let catalog = catalog(&files);
    assert_eq!(catalog.lineage("p0").unwrap_err().to_string(), "profile `p0` inherits more than 16 profiles");
    assert_eq!(catalog.lineage("p30").unwrap().len(), 11);
}

#[test]
fn an_unknown_profile_is_refused_with_the_list_and_the_nearest() {
    let catalog = Catalog::builtin();
    let error = catalog.check(&spec("h20"), &site(&[])).unwrap_err();
    assert_eq!(error.to_string(), "unknown profile `h20`");
    let help = error.help().unwrap();
    assert!(help.starts_with("did you mean `h200`? installed: ") && help.contains("base, "), "{help}");
    assert_eq!(catalog.check(&spec("h200+rose"), &site(&[])).unwrap_err().to_string(), "unknown profile `rose`");
    for fine in ["h200", "auto", "off", "list"] {
        catalog.check(&spec(fine), &site(&[])).unwrap();
    }
}

#[test]
fn a_directory_wins_over_what_is_built_in_and_a_missing_one_is_no_fault() {
    let dir = TempDir::new("profiles");
    let (catalog, notices) = Catalog::load(&dir.path().join("none"));
    assert!(notices.is_empty() && catalog.get("h200").unwrap().source().builtin);
    let file = dir.write("h200.toml", "description = \"ours\"");
    dir.write("Bad Name.toml", "");
    dir.write("notes.txt", "");
    let (catalog, notices) = Catalog::load(dir.path());
    assert_eq!(catalog.profile("h200").unwrap().description, "ours");
    assert_eq!(*catalog.get("h200").unwrap().source(), Source::file(&file));
    assert_eq!(notices.len(), 1);
    assert!(notices[0].message.ends_with("`Bad Name` cannot be the name of a profile"), "{notices:?}");
}

#[test]
fn a_file_that_others_can_write_hides_the_built_in_one_and_is_not_used() {
    use std::os::unix::fs::PermissionsExt;
    let dir = TempDir::new("profiles-open");
    let file = dir.write("h200.toml", "");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
    dir.write("latin.toml", "");
    std::fs::write(dir.path().join("latin.toml"), b"description = \"\xe9\"").unwrap();
    let (catalog, _) = Catalog::load(dir.path());
    let error = catalog.resolve(&spec("h200"), &site(&[]), &h200(1)).unwrap_err();
    assert_eq!(error.to_string(), "profile `h200` is not used");
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(cause, format!("`{}` can be written by others (mode 0666)", file.display()));
    assert_eq!(error.help().unwrap(), format!("chmod go-w `{}`", file.display()));
    let latin = dir.path().join("latin.toml");
    let error = catalog.profile("latin").unwrap_err().to_string();
    assert_eq!(error, format!("profile `latin` is not used: `{}` is not UTF-8", latin.display()));
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let (catalog, notices) = Catalog::load(dir.path());
    assert!(catalog.get("h200").unwrap().source().builtin);
    assert!(notices[0].message.starts_with("only built-in profiles are used: "), "{notices:?}");
}

#[test]
fn a_broken_file_of_the_admins_is_not_replaced_by_the_built_in_one() {
    let catalog = catalog(&[("h200", "[bind]\ncpu = 1")]);
    let error = catalog.resolve(&spec("h200"), &site(&[]), &h200(1)).unwrap_err();
    assert_eq!(error.to_string(), "profile `h200` is not used: h200.toml:2:7: expected a string, found `1`");
}

#[test]
fn an_unknown_key_is_a_warning_in_a_job_and_an_error_with_strict() {
    let catalog = catalog(&[("p", "[bind]\nmem-policy = \"bind\"")]);
    let resolved = resolve(&catalog, "p", &h200(1));
    assert_eq!(messages(&resolved), ["p.toml:2:1: unknown key `mem-policy` in `[bind]`: ignored"]);
    let error = catalog.resolve(&spec("p"), &site(&["strict"]), &h200(1)).unwrap_err();
    assert_eq!(error.to_string(), "profile `p` is not used: p.toml:2:1: unknown key `mem-policy` in `[bind]`");
}

#[test]
fn auto_picks_by_model_and_falls_back_to_base_with_one_reason() {
    let catalog = catalog(&[
        ("ours", "inherits = \"h200\"\ngpu = [\"H200*\"]"),
        ("nvl", "inherits = \"h200\"\ngpu = [\"H200 NVL*\"]"),
        ("l", "layer = true\ngpu = [\"H200 NVL 141*\"]"),
    ]);
    let with = |models: &[&str]| {
        let gpus = models.iter().map(|model| (*model).to_owned()).collect();
        resolve(&catalog, "auto", &Facts { gpus, nodes: Some(1), ..Facts::default() })
    };
    assert_eq!(with(&["NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe"]).name, "h100");
    assert_eq!(with(&["NVIDIA H200"]).name, "ours", "the admin's file comes before the built-in one");
    assert_eq!(with(&["NVIDIA H200 NVL 141GB"]).name, "nvl", "the pattern that says more");
    let mixed = with(&["NVIDIA H200", "NVIDIA H100 80GB HBM3"]);
    assert_eq!(mixed.name, "base");
    assert_eq!(messages(&mixed), ["`auto` takes `base`: the GPUs are mixed: `NVIDIA H100 80GB HBM3`, `NVIDIA H200`"]);
    assert_eq!(messages(&with(&["NVIDIA L4", "NVIDIA L4"])), ["`auto` takes `base`: no profile is for `NVIDIA L4`"]);
    assert_eq!(messages(&with(&["", ""])), ["`auto` takes `base`: the GPU model is not known"]);
    assert!(with(&[]).notices.is_empty());
}

#[test]
fn a_profile_for_other_gpus_warns_and_names_the_right_one() {
    let catalog = catalog(&[("ours", "inherits = \"h200\"")]);
    let facts = Facts { gpus: vec!["NVIDIA H100 80GB HBM3".into()], nodes: Some(1), ..Facts::default() };
    let resolved = resolve(&catalog, "ours", &facts);
    assert_eq!(messages(&resolved), ["profile `ours` is for GPUs `H200*`, and this is `NVIDIA H100 80GB HBM3`"]);
    assert_eq!(resolved.notices[0].code, crate::Code::ProfileGpuMismatch);
    assert_eq!(resolved.notices[0].help.as_deref(), Some("`h100` is for such GPUs; `auto` picks by model"));
    assert!(resolve(&catalog, "ours", &h200(1)).notices.is_empty());
}

#[test]
fn what_must_be_equal_on_all_nodes_is_set_only_where_no_node_can_differ() {
    let catalog = catalog(&[(
        "p",
        "[env]
A = { value = \"1\", uniform = true, when = { nodes = \">1\" } }
B = { value = \"1\", uniform = true, when = { gpu = \"H200*\" } }
C = { value = \"{rocev2_gid_index}\", uniform = true }
D = { value = \"{nodes}\", uniform = true }",
    )]);
    let resolved = resolve(&catalog, "p", &h200(2));
    assert_eq!(values(&resolved), ["A=1", "D={nodes}"]);
    let reasons: Vec<&str> = resolved.skipped.iter().map(|skipped| skipped.reason.as_str()).collect();
    assert_eq!(
        reasons,
        [
            "must be equal on all nodes of a job, and it depends on `gpu`",
            "must be equal on all nodes of a job, and it depends on `{rocev2_gid_index}`"
        ]
    );
    assert_eq!(values(&resolve(&catalog, "p", &h200(1))), ["B=1", "C={rocev2_gid_index}", "D={nodes}"]);
    let unknown = Facts { nodes: None, ..h200(1) };
    assert_eq!(values(&resolve(&catalog, "p", &unknown)), ["D={nodes}"], "an unknown number may be several");
}

#[test]
fn under_auto_what_must_be_equal_is_not_left_to_each_node() {
    let catalog = Catalog::builtin();
    let named = resolve(&catalog, "h200", &h200(2));
    assert!(values(&named).contains(&"NCCL_BUFFSIZE=8388608".to_owned()));
    let auto = resolve(&catalog, "auto", &h200(2));
    assert_eq!(auto.name, "h200");
    assert!(!values(&auto).iter().any(|value| value.starts_with("NCCL_BUFFSIZE")));
    assert!(auto.skipped.iter().any(|s| s.reason.ends_with("`auto` picks the profile node by node")), "{auto:?}");
}

#[test]
fn the_options_keys_have_the_last_word() {
    let catalog = catalog(&[("p", "[env]\nA = \"1\"\n[bind]\ncpu = \"exclusive\"\n[launch]\nrendezvous = \"off\"")]);
    let resolved = resolve(&catalog, "p,bind=numa,mem=off,smt=one,rendezvous=on,workers=off,env=off,dry-run", &h200(1));
    let binding = &resolved.binding;
    assert_eq!((binding.cpu, binding.mem, binding.smt), (CpuPolicy::Numa, MemPolicy::Off, Smt::One));
    assert_eq!((resolved.rendezvous, resolved.workers), (Rendezvous::On, false));
    assert!(resolved.env.is_empty() && resolved.dry_run && resolved.verbose);
    assert!(resolve(&catalog, "p", &h200(1)).workers);
    assert_eq!(catalog.resolve(&spec("off"), &site(&[]), &h200(1)).unwrap(), None);
}

#[test]
fn only_what_is_allowed_can_be_named_and_the_admins_own_words_always_can() {
    let catalog = Catalog::builtin();
    let site = site(&["allow=h100", "default=h200+classic", "fabric=base"]);
    for fine in ["h100", "h200", "h200+classic", "off", "h100+base"] {
        catalog.check(&spec(fine), &site).unwrap();
        catalog.resolve(&spec(fine), &site, &h200(1)).unwrap();
    }
    let strict = SiteConfig { default: None, fabric: None, ..site.clone() };
    for refused in ["auto", "h200", "h100+classic", "base"] {
        let error = catalog.check(&spec(refused), &strict).expect_err(refused);
        assert!(matches!(error, ProfileError::NotAllowed { .. }), "{error}");
    }
    let error = catalog.resolve(&spec("auto"), &site, &h200(1)).unwrap_err();
    assert_eq!(error.to_string(), "profile `auto` is not allowed on this cluster");
    assert_eq!(error.help().unwrap(), "allowed: h100");
}

#[test]
fn what_is_locked_is_as_the_default_says_and_the_user_hears_it() {
    let catalog = Catalog::builtin();
    let locked =
        |words: &[&str], option: &str| catalog.resolve(&spec(option), &site(words), &h200(1)).unwrap().unwrap();
    let resolved = locked(&["lock=bind,env,dry-run"], "h200,bind=off,env=off,dry-run,mem=off");
    assert_eq!((resolved.binding.cpu, resolved.binding.mem), (CpuPolicy::Exclusive, MemPolicy::Off));
    assert!(!resolved.env.is_empty() && !resolved.dry_run && resolved.verbose);
    assert_eq!(
        messages(&resolved),
        [
            "`bind=` is ignored: this cluster has locked it",
            "`env=off` is ignored: this cluster has locked it",
            "`dry-run` is ignored: this cluster has locked it"
        ]
    );
    let resolved = locked(&["default=h200,bind=numa", "lock=bind"], "h200");
    assert_eq!(resolved.binding.cpu, CpuPolicy::Numa, "a locked key keeps what the default says");
    assert!(resolved.notices.is_empty(), "nothing was asked for in vain");
    let resolved = locked(&["default=h200+base", "lock=profile,layers"], "h100+classic,mem=off");
    assert_eq!(resolved.name, "h200+base");
    assert_eq!(resolved.binding.mem, MemPolicy::Off);
    assert_eq!(resolved.notices.len(), 2);
}

#[test]
fn a_locked_off_cannot_be_had_by_any_other_word() {
    let catalog = Catalog::builtin();
    let site = site(&["default=h200", "lock=off", "allow=h100"]);
    for trick in ["off", "nosuch", "classic", "h100+nosuch", "h200,dry-run"] {
        let resolved = catalog.resolve(&spec(trick), &site, &h200(1)).unwrap().expect(trick);
        assert_eq!(resolved.name, "h200", "{trick}");
        assert!(!resolved.dry_run);
        assert_eq!(resolved.notices.len(), 1, "{trick}: {:?}", resolved.notices);
    }
}

#[test]
fn classic_is_exactly_the_template_and_inherits_nothing() {
    let resolved = resolve(&Catalog::builtin(), "classic", &h200(2));
    assert_eq!(
        values(&resolved),
        [
            "CUDA_DEVICE_MAX_CONNECTIONS=1",
            "MKL_NUM_THREADS=4",
            "NCCL_BUFFSIZE=16777216",
            "NCCL_CROSS_NIC=1",
            "NCCL_DEBUG=INFO",
            "NCCL_DEBUG_SUBSYS=INIT,ENV",
            "NCCL_IB_DISABLE=0",
            "NCCL_IB_GID_INDEX=3",
            "NCCL_IB_TC=106",
            "NCCL_NET_GDR_LEVEL=5",
            "OMP_NUM_THREADS=4",
            "TORCH_NCCL_AVOID_RECORD_STREAMS=1",
        ]
    );
    assert!(resolved.env.iter().all(|rule| rule.action == Action::Default && rule.at_most.is_none()));
    assert_eq!((resolved.binding.cpu, resolved.binding.mem), (CpuPolicy::Exclusive, MemPolicy::Bind));
    assert!(resolved.skipped.is_empty() && resolved.notices.is_empty());
}

#[test]
fn every_built_in_profile_is_read_without_a_finding() {
    let catalog = Catalog::builtin();
    for (name, entry) in catalog.entries() {
        entry.profile(name).unwrap();
        assert!(entry.findings(name).is_empty(), "{:?}", entry.findings(name));
        assert!(!catalog.profile(name).unwrap().description.is_empty(), "{name}");
        catalog.lineage(name).unwrap();
    }
}

#[test]
fn link_layers_are_facts() {
    let catalog = catalog(&[("p", "[env]\nA = { value = \"1\", when = { link_layer = \"ethernet\" } }")]);
    let with = |layer| resolve(&catalog, "p", &Facts { link_layers: [layer].into(), ..h200(1) });
    assert_eq!(values(&with(LinkLayer::Ethernet)), ["A=1"]);
    assert!(with(LinkLayer::Infiniband).env.is_empty());
}

/// The kind's first letter, the line, the message and the help of everything that `check` says about a file.
fn checked(text: &str) -> Vec<String> {
    let catalog = catalog(&[("p", text)]);
    let told = |finding: Finding| {
        let kind = format!("{:?}", finding.kind).chars().next().unwrap();
        let help = finding.help.map(|help| format!(" | {help}")).unwrap_or_default();
        format!("{kind}{}:{} {}{help}", finding.line, finding.column, finding.message)
    };
    check(&catalog, "p").into_iter().map(told).collect()
}

#[test]
fn check_says_what_a_program_would_misread_or_what_stands_in_the_wrong_place() {
    for (text, expected) in [
        (
            "nccl_ib_hca = \"=mlx5_0\"",
            "E2:1 nothing reads `nccl_ib_hca`: names are case-sensitive | write `NCCL_IB_HCA`",
        ),
        ("NCCL_DEBGU = \"INFO\"", "W2:1 unknown name `NCCL_DEBGU` | did you mean `NCCL_DEBUG`?"),
        ("NCCL_IB_TIMEOUT = \"010\"", "E2:1 NCCL reads `010` as 8 | a whole number from 0 to 31, without a unit"),
        (
            "NCCL_IB_TC = \"300\"",
            "E2:1 `NCCL_IB_TC` does not take `300` | a whole number from 0 to 255, without a unit",
        ),
        (
            "NCCL_DEBUG = \"WARN \"",
            "E2:1 `NCCL_DEBUG` does not take `WARN ` | did you mean `WARN`? it takes `VERSION`, `WARN`, `INFO`, `ABORT` or `TRACE`",
        ),
        ("NCCL_SOCKET_IFNAME = \" eth0\"", "W2:1 blanks around the value of `NCCL_SOCKET_IFNAME` become part of it"),
        (
            "NCCL_ALGO = \"Ring\"",
            "E2:1 `NCCL_ALGO` is refused | forces algorithms; from 2.24 on an impossible choice fails, `Tree` breaks deterministic training; `allow_debug = true` if you mean it",
        ),
        (
            "NCCL_NVLS_ENABLE = \"0\"",
            "W2:1 `NCCL_NVLS_ENABLE` is for finding faults: NVLink SHARP: 2 automatic; 0 saves GPU memory, as NVIDIA's recipes do, and slows large all-reduces | `allow_debug = true` if you mean it",
        ),
        (
            "OMP_PROC_BIND = \"close\"",
            "W2:1 `OMP_PROC_BIND` works against the binding: OpenMP pins the main thread at start; data loaders and NCCL inherit one CPU | leave it out, or turn gpu-tune's binding off with `[bind] cpu = \"off\"`",
        ),
        (
            "NCCL_IGNORE_CPU_AFFINITY = \"1\"",
            "W2:1 `NCCL_IGNORE_CPU_AFFINITY` with exclusive cores: 1: NCCL's threads take all CPUs of the GPU's node instead of the rank's: undoes exclusive cores",
        ),
        (
            "CUDA_VISIBLE_DEVICES = \"0\"",
            "E2:1 a profile may not set `CUDA_VISIBLE_DEVICES`: which GPUs a task sees is Slurm's business",
        ),
        (
            "LD_PRELOAD = \"/x.so\"",
            "E2:1 `LD_PRELOAD` is a list that others add to: a value would replace theirs | use `action = \"append\"`, or `\"prepend\"`",
        ),
        (
            "PATH = { value = \"/x\", action = \"force\" }",
            "E2:1 `PATH` is a list that others add to: a value would replace theirs | use `action = \"append\"`, or `\"prepend\"`",
        ),
        (
            "GLOO_SOCKET_IFNAME = \"=eth0\"",
            "E2:1 gloo takes one plain interface name | leave `=` and `^` to NCCL_SOCKET_IFNAME",
        ),
        ("NCCL_IB_HCA = \"mlx5_1\"", "W2:1 names are prefixes: `mlx5_1` is `mlx5_10` too | write `=mlx5_1`"),
        (
            "NCCL_IB_GID_INDEX = \"3\"",
            "W2:1 the index differs between nodes and changes with their addresses | write `{rocev2_gid_index}`, or leave it to NCCL 2.21 and later",
        ),
        ("PET_NNODES = \"\"", "E2:1 torchrun does not start with an empty `PET_NNODES`"),
        (
            "TORCH_NCCL_AVOID_RECORD_STREAMS = \"1\"",
            "W2:1 `TORCH_NCCL_AVOID_RECORD_STREAMS` is read up to PyTorch 2.13 only: less memory up to PyTorch 2.7; always so since 2.8; wrong loss with NGC 25.04",
        ),
        (
            "NCCL_CROSS_NIC = { value = \"1\", when = { link_layer = \"ethernet\" } }",
            "W2:1 `NCCL_CROSS_NIC` must be equal on all nodes of a job, and it depends on `link_layer` | add `uniform = true`",
        ),
    ] {
        assert_eq!(checked(&format!("[env]\n{text}\n")), [expected], "{text}");
    }
    let both = checked("[env]\nMKL_NUM_THREADS = \"4\"\nOMP_NUM_THREADS = \"4\"");
    assert_eq!(both.len(), 2, "{both:?}");
    assert!(both[0].starts_with("W2:1 `MKL_NUM_THREADS` together with `OMP_NUM_THREADS`: PyTorch follows"), "{both:?}");
    let chunk = checked("allow_debug = true\n[env]\nNCCL_P2P_NET_CHUNKSIZE = \"2097152\"");
    assert_eq!(chunk, ["W3:1 only 524288 bytes of it count: an eighth of NCCL_BUFFSIZE, 4194304"]);
    let chunk = checked("inherits = \"h200\"\nallow_debug = true\n[env]\nNCCL_P2P_NET_CHUNKSIZE = \"1048576\"");
    assert!(chunk.is_empty(), "h200's buffer of 8 MiB makes room: {chunk:?}");
}

#[test]
fn check_lets_through_what_is_meant() {
    for text in [
        "allow_debug = true\n[env]\nNCCL_PROTO = \"Simple\"",
        "[bind]\ncpu = \"off\"\n[env]\nOMP_PROC_BIND = \"close\"",
        "[bind]\ncpu = \"numa\"\n[env]\nNCCL_IGNORE_CPU_AFFINITY = \"1\"",
        "[env]\nLD_LIBRARY_PATH = { value = \"/opt/x\", action = \"append\" }",
        "[env]\nNCCL_IB_HCA = \"=mlx5_0\"\nNCCL_IB_TC = \"41\"",
        "[env]\nMY_OWN = \"x\"",
        "[env]\nKMP_AFFINITY = { action = \"unset\" }",
    ] {
        assert_eq!(checked(text), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn check_finds_network_and_workload_in_a_gpu_profile_also_in_one_that_inherits_it() {
    for head in ["gpu = \"H200*\"", "inherits = \"h200\""] {
        let found = checked(&format!("{head}\n[env]\nCUDA_DEVICE_MAX_CONNECTIONS = \"1\"\nNCCL_IB_TC = \"106\""));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].starts_with("W3:1 `CUDA_DEVICE_MAX_CONNECTIONS` depends on what the job computes"),
            "{found:?}"
        );
        assert!(found[1].starts_with("W4:1 `NCCL_IB_TC` depends on the network, not on the GPU | put it into a layer"));
    }
}

#[test]
fn check_tells_a_broken_inheritance_at_its_line() {
    assert!(
        checked("\ninherits = \"nosuch\"")[0].starts_with("E2:1 profile `p` inherits the unknown profile `nosuch`")
    );
}

#[test]
fn a_value_that_would_be_misread_is_not_set_in_a_job_and_the_admin_hears_it() {
    let catalog = catalog(&[("p", "[env]\nNCCL_BUFFSIZE = \"16M\"\nNCCL_ALGO = \"Ring\"\nA = \"1\"")]);
    let resolved = resolve(&catalog, "p", &h200(1));
    assert_eq!(values(&resolved), ["A=1"]);
    assert_eq!(
        messages(&resolved),
        [
            "p.toml:3: not set: `NCCL_ALGO` is refused without `allow_debug`",
            "p.toml:2: not set: NCCL reads `16M` as 16"
        ]
    );
}

#[test]
fn every_built_in_profile_passes_check_and_only_the_copied_template_has_warnings() {
    let catalog = Catalog::builtin();
    for name in catalog.names() {
        let findings = check(&catalog, name);
        assert!(findings.iter().all(|finding| finding.kind == Kind::Warning), "{findings:?}");
        assert!(findings.is_empty() || name == "classic", "{findings:?}");
    }
    assert!(!check(&catalog, "classic").is_empty());
}

#[test]
fn frameworks_are_told_not_to_bind_only_where_gpu_tune_binds() {
    let catalog = Catalog::builtin();
    let told = |option: &str| values(&resolve(&catalog, option, &h200(1))).contains(&"I_MPI_PIN=0".to_owned());
    assert!(told("h200") && told("h200,bind=numa"));
    assert!(!told("h200,bind=off"));
    let skipped = resolve(&catalog, "h200,bind=off", &h200(1)).skipped;
    assert!(skipped.iter().any(|skipped| skipped.reason == "gpu-tune does not bind here"));
}

/// What the shipped profiles come to: profile, GPU model, nodes, and the value of one variable (`-`: none).
#[test]
fn shipped_profiles_come_to_the_values_of_the_design() {
    let catalog = Catalog::builtin();
    for (option, model, nodes, name, expected) in [
        ("base", "NVIDIA L4", 1, "CUDA_DEVICE_ORDER", "PCI_BUS_ID"),
        ("base", "NVIDIA L4", 1, "NCCL_SET_THREAD_NAME", "1"),
        ("base", "NVIDIA L4", 1, "NCCL_DEBUG", "WARN"),
        ("base", "NVIDIA L4", 1, "OMP_NUM_THREADS", "4"),
        ("base", "NVIDIA L4", 1, "TLLM_NUMA_AWARE_WORKER_AFFINITY", "0"),
        ("h100", "NVIDIA H100 80GB HBM3", 2, "NCCL_BUFFSIZE", "8388608"),
        ("h200", "NVIDIA H200", 2, "NCCL_BUFFSIZE", "8388608"),
        ("h200", "NVIDIA H200", 1, "NCCL_BUFFSIZE", "-"),
        ("a100", "NVIDIA A100-SXM4-80GB", 2, "NCCL_BUFFSIZE", "-"),
        ("b200", "NVIDIA B200", 2, "NCCL_BUFFSIZE", "-"),
        ("gb200", "NVIDIA GB200", 2, "NCCL_NET_GDR_C2C", "1"),
        ("gh200", "NVIDIA GH200 480GB", 2, "NCCL_NET_GDR_C2C", "1"),
        ("h200", "NVIDIA H200", 2, "CUDA_DEVICE_MAX_CONNECTIONS", "-"),
        ("b200", "NVIDIA B200", 2, "CUDA_DEVICE_MAX_CONNECTIONS", "-"),
        ("a100+megatron-tp", "NVIDIA A100-SXM4-80GB", 1, "CUDA_DEVICE_MAX_CONNECTIONS", "1"),
        ("h200+megatron-tp", "NVIDIA H200", 1, "CUDA_DEVICE_MAX_CONNECTIONS", "1"),
        ("gh200+megatron-tp", "NVIDIA GH200 480GB", 1, "CUDA_DEVICE_MAX_CONNECTIONS", "1"),
        ("b200+megatron-tp", "NVIDIA B200", 1, "CUDA_DEVICE_MAX_CONNECTIONS", "32"),
        ("gb200+megatron-tp", "NVIDIA GB200", 1, "CUDA_DEVICE_MAX_CONNECTIONS", "32"),
        ("base+megatron-tp", "AMD Instinct MI300X", 1, "CUDA_DEVICE_MAX_CONNECTIONS", "-"),
        ("h200+fsdp", "NVIDIA H200", 1, "CUDA_DEVICE_MAX_CONNECTIONS", "unset"),
        ("b200+fsdp", "NVIDIA B200", 1, "CUDA_DEVICE_MAX_CONNECTIONS", "32"),
        ("classic+fsdp", "NVIDIA H200", 1, "CUDA_DEVICE_MAX_CONNECTIONS", "unset"),
        ("h200+moe", "NVIDIA H200", 1, "CUDA_DEVICE_MAX_CONNECTIONS", "32"),
        ("h200+lowmem", "NVIDIA H200", 2, "NCCL_NVLS_ENABLE", "0"),
        ("h200+lowmem", "NVIDIA H200", 2, "NCCL_GRAPH_REGISTER", "0"),
        ("h200+lowmem", "NVIDIA H200", 2, "PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),
        ("h200+debug", "NVIDIA H200", 1, "NCCL_DEBUG", "INFO"),
        ("h200+debug", "NVIDIA H200", 1, "NCCL_DEBUG_FILE", "nccl.%h.%p.log"),
    ] {
        let facts = Facts { gpus: vec![model.into()], nodes: Some(nodes), ..Facts::default() };
        let resolved = resolve(&catalog, option, &facts);
        let rule = resolved.env.iter().find(|rule| &*rule.name == name);
        let value = match rule {
            None => "-".to_owned(),
            Some(rule) if rule.action == Action::Unset => "unset".to_owned(),
            Some(rule) => rule.value.to_string(),
        };
        assert_eq!(value, expected, "{option} {model} {nodes} {name}");
        assert!(resolved.notices.is_empty(), "{option} on {model}: {:?}", resolved.notices);
    }
    let b300 = Facts { gpus: vec!["NVIDIA B300 SXM6 AC".into()], ..Facts::default() };
    assert!(resolve(&catalog, "b300", &b300).binding.prefer_priority);
    assert!(!resolve(&catalog, "h200", &h200(1)).binding.prefer_priority);
}

#[test]
fn no_machine_profile_sets_what_belongs_to_network_workload_or_launcher() {
    let catalog = Catalog::builtin();
    let never = |name: &str| {
        let known = known::find(name);
        let foreign = known.is_some_and(|known| known.is(known::Trait::Network) || known.is(known::Trait::Dangerous));
        let pins = known.is_some_and(|known| known.is(known::Trait::Pins) || known.class == known::Class::Workload);
        foreign || pins || name.starts_with("PET_")
    };
    for name in ["base", "a100", "h100", "h200", "b200", "b300", "gh200", "gb200"] {
        for profile in catalog.lineage(name).unwrap() {
            let odd: Vec<&str> = profile.env.iter().map(|rule| &*rule.name).filter(|name| never(name)).collect();
            assert!(odd.is_empty(), "{name}: {odd:?}");
        }
    }
}

#[test]
fn auto_knows_every_shipped_model() {
    let catalog = Catalog::builtin();
    for (model, expected) in [
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA A100-PCIE-40GB", "a100"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H100 NVL", "h100"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA H200 NVL", "h200"),
        ("NVIDIA B200", "b200"),
        ("NVIDIA B300 SXM6 AC", "b300"),
        ("NVIDIA GH200 480GB", "gh200"),
        ("NVIDIA GB200", "gb200"),
        ("NVIDIA GB300", "gb200"),
        ("NVIDIA L4", "base"),
        ("AMD Instinct MI300X", "base"),
    ] {
        let facts = Facts { gpus: vec![model.into(); 4], nodes: Some(1), ..Facts::default() };
        assert_eq!(resolve(&catalog, "auto", &facts).name, expected, "{model}");
    }
}

#[test]
fn a_layer_named_alone_is_told() {
    let resolved = resolve(&Catalog::builtin(), "moe", &h200(1));
    assert_eq!(messages(&resolved), ["`moe` is a layer: alone it sets only its own values"]);
    assert_eq!(resolved.notices[0].help.as_deref(), Some("write `auto+moe`"));
}
