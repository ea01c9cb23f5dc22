//! One file: what is read, and how faults are told.

use super::*;

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
        ("import = \"env.sh\"", "p.toml:1:10: expected the path of a file from `/` on"),
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
        ("[env]\n\"NCCL_IB_HCA \" = \"x\"", "p.toml:2:1: `NCCL_IB_HCA ` cannot be the name of a variable"),
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
