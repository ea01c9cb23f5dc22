//! `gpu-tune plan` as a person and as a script meets it.

use crate::common::{gpu_tune, pipe, scratch, told, topology};
use serde_json::Value;

/// The plan for a machine of the collection; the options are as typed.
fn plan(file: &str, options: &str) -> Option<String> {
    let path = topology(file)?;
    let mut args = vec!["plan", "--topology", &path];
    args.extend(options.split_whitespace());
    Some(told(&gpu_tune(&args)))
}

fn json(file: &str, options: &str) -> Option<Value> {
    let text = plan(file, &format!("{options} --json"))?;
    let line = text.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("no JSON: {text}"));
    Some(serde_json::from_str(line).expect("valid JSON"))
}

#[test]
fn one_task_for_each_gpu_is_the_rule() {
    if let Some(text) = plan("turin-4gpu-nvml.xml", "h200,env=off") {
        insta::assert_snapshot!("turin_h200", text);
    }
}

#[test]
fn one_task_that_sees_all_gpus_is_a_launcher() {
    if let Some(text) = plan("hgx-h100-8gpu.xml", "h100,env=off --tasks 1") {
        insta::assert_snapshot!("hgx_torchrun", text);
    }
}

#[test]
fn gpus_beyond_the_allowed_cpus_are_told_once_and_keep_their_ranks() {
    if let Some(text) = plan("hgx-h100-8gpu.xml", "h100,env=off --cpus 0-15") {
        insta::assert_snapshot!("hgx_half_remote", text);
    }
}

#[test]
fn the_json_has_exactly_the_promised_names() {
    let Some(value) = json("turin-4gpu-nvml.xml", "h200 --tasks 1") else { return };
    let names = |value: &Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(names(&value), "left_alone machine mode profile schema tasks warnings");
    assert_eq!(names(&value["machine"]), "cpus gpus nics numa");
    assert_eq!(names(&value["machine"]["numa"][0]), "cpus id memory_bytes");
    assert_eq!(names(&value["machine"]["gpus"][0]), "cpus index model nics numa pci uuid");
    assert_eq!(names(&value["machine"]["nics"][0]), "link_layer name numa pci");
    assert_eq!(names(&value["machine"]["gpus"][0]["nics"][0]), "name near");
    assert_eq!(names(&value["tasks"][0]), "cpus env gpus local_id mems policy ranks");
    assert_eq!(names(&value["tasks"][0]["ranks"][0]), "cpus gpu local_rank mems policy");
    assert_eq!((&value["schema"], &value["mode"]), (&Value::from(1), &Value::from("launcher")));
}

#[test]
fn the_json_of_a_plan_is_this() {
    if let Some(value) = json("turin-4gpu-nvml.xml", "h200,env=off --tasks 2 --mems 0-3") {
        insta::assert_snapshot!("turin_json", serde_json::to_string_pretty(&value).expect("JSON"));
    }
}

#[test]
fn gpus_per_task_deals_the_visible_list_out() {
    let Some(value) = json("hgx-h100-8gpu.xml", "h100 --visible 7,6,0,1 --gpus-per-task 2") else { return };
    let gpus: Vec<&Value> = value["tasks"].as_array().expect("tasks").iter().map(|task| &task["gpus"]).collect();
    assert_eq!(gpus, [&Value::from(vec![7, 6]), &Value::from(vec![0, 1])]);
}

#[test]
fn without_gpus_per_task_the_visible_list_is_everybodys() {
    let Some(value) = json("hgx-h100-8gpu.xml", "h100 --visible 3,6,5,4,0,7,1,2") else { return };
    let gpus: Vec<u64> = (0..8).map(|task| value["tasks"][task]["gpus"][0].as_u64().expect("a GPU")).collect();
    assert_eq!(gpus, [3, 6, 5, 4, 0, 7, 1, 2]);
    assert_eq!(value["tasks"][0]["mems"], "0");
    assert_eq!(value["tasks"][1]["mems"], "1");
}

#[test]
fn binding_switched_off_leaves_tasks_where_they_are() {
    let Some(value) = json("hgx-h100-8gpu.xml", "h100 --bind off --mem off --cpus 0-111") else { return };
    assert_eq!(value["tasks"][0]["cpus"], "0-111");
    assert_eq!((&value["tasks"][0]["mems"], &value["tasks"][0]["policy"]), (&Value::from(""), &Value::from("off")));
}

#[test]
fn options_win_over_the_keys_of_the_profile_text() {
    let Some(value) = json("hgx-h100-8gpu.xml", "h100,mem=off,smt=all --mem bind --smt one") else { return };
    assert_eq!((&value["tasks"][0]["cpus"], &value["tasks"][0]["policy"]), (&"0-13".into(), &"bind".into()));
}

#[test]
fn what_leaves_nothing_to_plan_exits_with_1() {
    let refusals = [
        ("--cpus 900-901", "none of the CPUs 900-901 is online on this machine, which has 0-223"),
        ("--cpus=", "`--cpus` names no CPU, so there is nothing to plan"),
        ("--mems 98-99", "none of the NUMA nodes 98-99 is on this machine, which has 0-1"),
        ("--mems=", "`--mems` names no NUMA node, so no memory could be had"),
        ("--visible -1", "`--visible` leaves no GPU, so there is nothing to plan"),
        ("--visible=", "`--visible` leaves no GPU, so there is nothing to plan"),
        ("--visible NoDevFiles", "`--visible` leaves no GPU, so there is nothing to plan"),
        ("--gpus-per-task 2 --tasks 5", "5 tasks with 2 GPUs each need more than the 8 visible"),
    ];
    for (options, reason) in refusals {
        let Some(text) = plan("hgx-h100-8gpu.xml", options) else { return };
        assert!(text.starts_with("exit 1\n--- stdout\n--- stderr\n"), "{text}");
        assert!(text.contains(&format!("gpu-tune: error: {reason}\n")), "{text}");
    }
}

#[test]
fn what_is_named_and_not_there_is_told_and_passed_over() {
    let Some(text) = plan("hgx-h100-8gpu.xml", "h100 --cpus 0-223,999 --mems 0-1,7") else { return };
    for line in ["the machine has no CPUs 999: passed over", "the machine has no NUMA nodes 7: passed over"] {
        assert!(text.contains(&format!("gpu-tune: warning: {line}\n")), "{line}: {text}");
    }
    assert!(text.starts_with("exit 0\n"), "{text}");
}

#[test]
fn wrong_usage_exits_with_2_and_says_what_was_expected() {
    let refusals = [
        (vec!["--cpus", "3-1"], "the range `3-1` ends before it begins"),
        (vec!["--cpus", "x"], "`x` is neither a number nor a range like `0-7`"),
        (vec!["--tasks", "0"], "0 is not in 1..=4096"),
        (vec!["--bind", "node"], "[possible values: exclusive, numa, socket, off]"),
        (vec!["--mode", "torchrun"], "[possible values: auto, rank, launcher]"),
        (vec!["H200"], "`H200` cannot be the name of a profile or layer\ngpu-tune: help: did you mean `h200`? names"),
        (
            vec!["h200", "--fabric", "rocee"],
            "`--fabric`: unknown profile `rocee`\ngpu-tune: help: did you mean `roce`?",
        ),
        (vec!["h200,fast"], "unknown key `fast`"),
        (vec!["off"], "`off` is no profile\ngpu-tune: help: `gpu-tune profile list`"),
        (vec!["--json", "--svg", "x.svg"], "cannot be used with"),
        (vec!["--topology", "x.xml", "--nvml", "/x.so"], "cannot be used with"),
    ];
    for (options, reason) in refusals {
        let mut args = vec!["plan"];
        args.extend(&options);
        let text = told(&gpu_tune(&args));
        assert!(text.starts_with("exit 2\n--- stdout\n--- stderr\n"), "{options:?}: {text}");
        assert!(text.contains(reason), "{options:?}: {text}");
    }
}

#[test]
fn a_file_that_is_no_machine_is_refused_in_one_line() {
    let folder = scratch("no-machine");
    let path = folder.join("x.xml");
    std::fs::write(&path, "<html></html>\n").expect("a file");
    let path = path.to_string_lossy();
    let output = gpu_tune(&["plan", "--topology", &path]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.starts_with(&format!("gpu-tune: error: cannot read the machine: {path}:1: ")), "{text}");
}

#[test]
fn a_pipe_is_no_machine_and_is_not_waited_for() {
    let pipe = pipe(scratch("plan-pipe").join("pipe.toml"));
    let pipe = pipe.to_string_lossy();
    for args in [&["plan", "--topology", &pipe][..], &["profile", "check", &pipe]] {
        let text = told(&gpu_tune(args));
        assert!(text.starts_with("exit 1\n") && text.contains("not a regular file"), "{text}");
    }
}

#[test]
fn ranks_that_nobody_is_to_bind_are_shown_unbound() {
    let Some(text) = plan("turin-4gpu.xml", "h200,workers=off --tasks 1") else { return };
    let ranks: Vec<&str> = text.lines().filter(|line| line.contains("0000:")).collect();
    assert_eq!(ranks.len(), 4, "{text}");
    assert!(ranks.iter().all(|line| line.split_whitespace().rev().take(3).all(|cell| cell == "-")), "{text}");
}

/// Their variables are those of a step, which makes them from the shares that the ranks would have.
#[test]
fn what_is_set_does_not_depend_on_who_binds_the_ranks() {
    let of = |profile: &str| {
        let mut env = json("turin-4gpu.xml", &format!("{profile} --tasks 1 --cpus 0-7"))?["tasks"][0]["env"].clone();
        let entries = env.as_array_mut().expect("variables");
        // Where a value is from names the option.
        entries.iter_mut().for_each(|entry| entry["from"] = Value::Null);
        Some(env)
    };
    let Some(unbound) = of("h200,workers=off") else { return };
    let threads = unbound.as_array().expect("variables").iter().find(|entry| entry["name"] == "OMP_NUM_THREADS");
    assert_eq!(threads.expect("it is set")["value"], "2", "the cores of a rank");
    assert_eq!(Some(unbound), of("h200"));
}

#[test]
fn why_a_profile_is_unknown_is_told_before_that_it_is() {
    let text = told(&gpu_tune(&["plan", "mine", "--profile-dir", "not/there", "--topology", "/nonexistent"]));
    let warned = text.find("/not/there` is not there: only built-in profiles are used");
    let refused = text.find("unknown profile `mine`");
    assert!(warned.is_some() && warned < refused, "{text}");
}

#[test]
fn the_picture_is_one_whole_svg_file() {
    let Some(path) = topology("hgx-h100-8gpu.xml") else { return };
    let output = gpu_tune(&["plan", "h100", "--topology", &path, "--tasks", "1", "--svg", "-"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"), "{text}");
    assert_eq!(text.matches("<title>core ").count(), 112);
    assert_eq!(text.matches("<title>GPU ").count(), 8);
    assert_eq!(text.matches("rank 3</title>").count(), 14, "the cores of rank 3");
}

#[test]
fn a_pipe_does_not_get_colour() {
    if let Some(text) = plan("turin-4gpu.xml", "h200") {
        assert!(!text.contains('\x1b'), "{text:?}");
    }
}

#[test]
fn an_unknown_profile_is_wrong_usage_and_the_nearest_is_named() {
    let text = told(&gpu_tune(&["plan", "h20", "--topology", "/nonexistent"]));
    assert!(text.starts_with("exit 2\n--- stdout\n--- stderr\ngpu-tune: error: unknown profile `h20`\n"), "{text}");
    assert!(text.contains("gpu-tune: help: did you mean `h200`? installed: "), "{text}");
}

#[test]
fn the_admins_directory_is_read_where_it_is_named() {
    let Some(path) = topology("turin-4gpu-nvml.xml") else { return };
    let folder = scratch("profiles");
    let profile = "inherits = \"h200\"\n[env]\nNCCL_IB_HCA = \"={near_nics}\"\nNCCL_DEBUG = { action = \"unset\" }\n";
    std::fs::write(folder.join("site.toml"), profile).expect("a profile");
    let args = ["plan", "site", "--profile-dir", &folder.to_string_lossy(), "--topology", &path, "--json"];
    let value: Value = serde_json::from_slice(&gpu_tune(&args).stdout).expect("JSON");
    let env = value["tasks"][3]["env"].as_array().expect("variables");
    let found = |name: &str| env.iter().find(|entry| entry["name"] == name).expect("the variable");
    let file = folder.join("site.toml").to_string_lossy().into_owned();
    let removed = serde_json::json!({"name": "NCCL_DEBUG", "value": null, "action": "unset", "from": "profile site", "file": file, "line": 4});
    assert_eq!(*found("NCCL_DEBUG"), removed);
    assert_eq!(found("CUDA_DEVICE_ORDER")["from"], "profile base");
    assert_eq!(found("NCCL_IB_HCA")["value"], "=mlx5_5", "the NIC on the GPU's own switch");
}

#[test]
fn a_value_that_differs_from_rank_to_rank_cannot_be_had_for_a_launcher() {
    let Some(path) = topology("turin-4gpu-nvml.xml") else { return };
    let folder = scratch("per-rank");
    std::fs::write(folder.join("site.toml"), "[env]\nMY_GPU = \"{gpu_pci}\"\n").expect("a profile");
    let folder = folder.to_string_lossy();
    let run = |tasks: &str| {
        let args = ["plan", "site", "--profile-dir", &folder, "--topology", &path, "--json", "--tasks", tasks];
        serde_json::from_slice::<Value>(&gpu_tune(&args).stdout).expect("JSON")
    };
    assert_eq!(run("4")["tasks"][2]["env"][0]["value"], "0000:96:00.0");
    let launcher = run("1");
    assert_eq!(launcher["tasks"][0]["env"], serde_json::json!([]));
    assert_eq!(launcher["warnings"][0]["code"], "env");
}

#[test]
fn what_is_exported_here_does_not_change_the_plan_of_another_machine() {
    let Some(path) = topology("turin-4gpu-nvml.xml") else { return };
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_gpu-tune"));
    let output = command.args(["plan", "h200", "--topology", &path]).env("NCCL_DEBUG", "INFO").output();
    assert!(told(&output.expect("the program starts")).contains("NCCL_DEBUG=WARN"));
}

#[test]
fn what_gpu_tune_set_itself_does_not_count_as_the_users() {
    use gpu_tune_engine::launch::ours::{Mark, note};
    let show = |noted: &str| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_gpu-tune"));
        command.args(["profile", "show", "h200"]).env("NCCL_DEBUG", "TRACE").env("GPU_TUNE_SET", noted);
        told(&command.output().expect("the program starts"))
    };
    let ours = note([Mark { name: "NCCL_DEBUG", value: "TRACE".as_ref(), users: None }]);
    assert!(show(&ours).contains("NCCL_DEBUG = \"WARN\""), "{}", show(&ours));
    assert!(show("").contains("set by the user"), "{}", show(""));
}
