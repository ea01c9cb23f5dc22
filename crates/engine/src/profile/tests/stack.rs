//! Layers on top of each other, conditions, `auto`.

use super::*;

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
    let partly = "`auto` takes `base`: the GPUs are mixed: an unknown one, `NVIDIA H200`";
    assert_eq!(messages(&with(&["NVIDIA H200", ""])), [partly]);
    assert_eq!(messages(&with(&["A\nB"])), ["`auto` takes `base`: no profile is for `A\\nB`"]);
    assert!(with(&[]).notices.is_empty());
}

#[test]
fn what_the_admin_names_wrongly_is_told_with_the_word() {
    let catalog = Catalog::builtin();
    let resolved = catalog.resolve(&spec("h200"), &site(&["fabric=roec"]), &h200(1)).unwrap().unwrap();
    assert_eq!(messages(&resolved), ["`fabric=` in plugstack.conf: unknown profile `roec`"]);
    assert!(resolved.notices[0].help.as_ref().unwrap().starts_with("did you mean `roce`? "));
    let error = catalog.resolve(&spec("h200"), &site(&["fabric=roec", "strict"]), &h200(1)).unwrap_err();
    assert_eq!(crate::text::chain(&error.of_word("default")), "`fabric=` in plugstack.conf: unknown profile `roec`");
}

#[test]
fn a_profile_for_other_gpus_is_told_also_as_a_layer() {
    let odd = ["profile `h100` is for GPUs `H100*` or `H800*`, and this is `NVIDIA H200`"];
    let catalog = Catalog::builtin();
    assert_eq!(messages(&resolve(&catalog, "h200+h100", &h200(1))), odd);
    let resolved = catalog.resolve(&spec("h200"), &site(&["fabric=h100"]), &h200(1)).unwrap().unwrap();
    assert_eq!(messages(&resolved), odd);
}

#[test]
fn auto_does_not_pass_over_a_broken_file_in_silence() {
    for (text, fault) in
        [("x = ", "profile `h200` is not used: "), ("inherits = \"h200\"", "profile `h200` inherits itself: ")]
    {
        let catalog = catalog(&[("h200", text)]);
        let resolved = resolve(&catalog, "auto", &h200(1));
        assert_eq!(resolved.name, "base");
        let [first, reason] = &messages(&resolved)[..] else { panic!("{:?}", messages(&resolved)) };
        assert!(first.starts_with(fault), "{first}");
        assert_eq!(*reason, "`auto` takes `base`: no profile is for `NVIDIA H200`");
        let error = catalog.resolve(&spec("auto"), &site(&["strict"]), &h200(1)).unwrap_err();
        assert!(error.to_string().starts_with(fault), "{error}");
        let h100 = Facts { gpus: vec!["NVIDIA H100".into()], ..Facts::default() };
        assert!(resolve(&catalog, "auto", &h100).notices.is_empty(), "it is for other GPUs");
    }
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
fn link_layers_are_facts() {
    let catalog = catalog(&[("p", "[env]\nA = { value = \"1\", when = { link_layer = \"ethernet\" } }")]);
    let with = |layer| resolve(&catalog, "p", &Facts { link_layers: [layer].into(), ..h200(1) });
    assert_eq!(values(&with(LinkLayer::Ethernet)), ["A=1"]);
    assert!(with(LinkLayer::Infiniband).env.is_empty());
}

#[test]
fn every_value_outside_env_knows_its_place_unless_the_option_said_it() {
    let catalog = catalog(&[
        ("lower", "[bind]\ncpu = \"numa\"\nmem = \"bind\"\n[limits]\nmemlock = \"1GiB\""),
        ("p", "inherits = \"lower\"\n[bind]\ncpu = \"socket\"\n[launch]\nworkers = false"),
    ]);
    let places = |option: &str| -> Vec<String> {
        let resolved = resolve(&catalog, option, &h200(1));
        resolved.places.iter().map(|(key, origin)| format!("{key} {origin}")).collect()
    };
    let limit = "limits.memlock lower.toml:5";
    assert_eq!(places("p"), ["bind.cpu p.toml:3", "bind.mem lower.toml:3", "launch.workers p.toml:5", limit]);
    assert_eq!(places("p,bind=off,workers=off"), ["bind.mem lower.toml:3", limit]);
    assert_eq!(resolve(&catalog, "p", &h200(1)).memlock, Some(Memlock::Bytes(1 << 30)));
}

#[test]
fn a_flat_profile_keeps_alternatives_up_to_the_one_that_always_holds() {
    let catalog = catalog(&[
        ("lower", "[env]\nA = \"1\"\nB = \"1\"\n[bind]\nreserve = \"0-1\""),
        (
            "p",
            "inherits = \"lower\"\n[env]\nA = { value = \"2\", when = { nodes = \">1\", gpu = [\"H100*\", \"H200*\"] }, uniform = true }\nB = \"2\"",
        ),
    ]);
    let flat = catalog.flat("p").unwrap();
    let texts: Vec<String> = flat
        .0
        .iter()
        .flat_map(|(key, values)| values.iter().map(move |(text, origin)| format!("{key} {text} {origin}")))
        .collect();
    assert_eq!(
        texts,
        [
            "bind.reserve 0-1 lower.toml:5",
            "env.A \"2\", when gpu = [\"H100*\", \"H200*\"], nodes = \">1\", uniform p.toml:3",
            "env.A \"1\" lower.toml:2",
            "env.B \"2\" p.toml:4",
        ]
    );
}
