//! Every way around `allow=` and `lock=` that a user has from outside his tasks, on a real Slurm: each is refused, or
//! leads to a tuned task. What he does inside his own tasks is his (docs/admin.md).
#![cfg(test)]

mod slurm;

use slurm::run::{OPTION, Output};
use slurm::{Cluster, Setup};

const WORDS: &str = "default=h200 allow=h200 lock=off,env,bind,mem,dry-run";

/// So many tasks ran, each tuned as the site's default says.
#[track_caller]
fn tuned(out: &Output, tasks: usize) {
    let found = out.witnesses();
    assert_eq!(found.len(), tasks, "{}", said(out));
    for task in found {
        let seen = (task.policy, task.var("NCCL_DEBUG"), task.var("GPU_TUNE_PROFILE"));
        assert_eq!(seen, (1, Some("WARN"), Some("h200")), "{}", said(out));
    }
}

/// What was said beside the tasks' long lines.
fn said(out: &Output) -> String {
    out.stdout.lines().filter(|line| !line.starts_with("PROBE ")).map(|line| format!("{line}\n")).collect()
}

#[test]
fn no_way_around_what_the_admin_locked_leads_to_an_untuned_task() {
    let Some(mut cluster) = Cluster::start(Setup::default().words(WORDS)) else { return };
    a_profile_that_is_not_allowed_starts_nothing(&cluster);
    a_locked_key_is_told_and_changes_nothing(&cluster);
    a_forged_option_is_overruled(&cluster);
    what_sbatch_exports_changes_nothing(&cluster);
    steps_inside_steps_are_tuned_too(&cluster);
    a_step_without_gpus_is_left_alone_and_a_wrong_option_is_told(&cluster);
    cluster.check_alive();
}

/// A batch job with one GPU; `SRUN` in the script is an srun of one task that can start inside another step. Each task
/// writes into a file of its own, because srun mixes long lines.
fn batch(cluster: &Cluster, words: &[&str], env: &[(&str, &str)], script: &str) -> Output {
    let told = cluster.place.inside("out/told").display().to_string();
    let probe = cluster.place.script("bin/told", &format!("exec {} >{told}.$$", cluster.probe_path()));
    let script =
        script.replace("SRUN", "srun -n1 -c1 --gpus=1 --overlap").replace("PROBE", &probe.display().to_string());
    let mut out = cluster.batch(&[&["-n1", "-c1", "--gpus=1"], words].concat(), env, &script);
    for entry in std::fs::read_dir(cluster.place.outside("out")).unwrap().flatten() {
        out.stdout += &std::fs::read_to_string(entry.path()).unwrap();
        std::fs::remove_file(entry.path()).unwrap();
    }
    out
}

fn a_profile_that_is_not_allowed_starts_nothing(cluster: &Cluster) {
    let wishes = ["classic", "h200+debug", "auto", "h200+../../classic"];
    let mut script = String::new();
    for wish in wishes {
        script += &format!("SRUN --gpu-tune={wish} echo it ran\nGPU_TUNE={wish} SRUN echo it ran\n");
    }
    let out = batch(cluster, &[], &[], &script);
    assert!(!out.stdout.contains("it ran\n"), "{}", said(&out));
    let refused = out.stdout.lines().filter(|line| line.starts_with("srun: error: gpu-tune: ")).count();
    assert_eq!(refused, 2 * wishes.len(), "{}", said(&out));
    for program in ["sbatch", "salloc"] {
        let words: &[&str] = if program == "sbatch" { &["--wrap", "true"] } else { &["true"] };
        for (option, env) in [(&["--gpu-tune=classic"][..], &[][..]), (&[], &[("GPU_TUNE", "classic")])] {
            let out = cluster.run(program, &[&["-n1"], option, words].concat(), env);
            assert_ne!(out.code, 0, "{program}: {out:#?}");
            assert!(out.stderr.contains("error: gpu-tune: "), "{program}: {out:#?}");
        }
    }
}

fn a_locked_key_is_told_and_changes_nothing(cluster: &Cluster) {
    let wishes = ["off", "h200,bind=off", "h200,bind=numa", "h200,mem=off", "h200,env=off", "h200,dry-run"];
    let mut script = String::new();
    for wish in wishes {
        script += &format!("SRUN --gpu-tune={wish} PROBE\nGPU_TUNE={wish} SRUN PROBE\n");
    }
    let out = batch(cluster, &["--gpu-tune=off"], &[], &script);
    tuned(&out, 2 * wishes.len());
    // One for each srun.
    let told = out.stdout.matches("is ignored: this cluster has locked it").count();
    assert!(told >= 2 * wishes.len(), "{told} times in {}", said(&out));
}

fn a_forged_option_is_overruled(cluster: &Cluster) {
    let wishes = ["off", "classic", "h200,bind=off,mem=off,env=off", "x".repeat(5000).as_str()].map(str::to_owned);
    let mut script = String::new();
    for wish in &wishes {
        script += &format!("{OPTION}='{wish}' SRUN PROBE\n");
    }
    script += &format!("env -i PATH=$PATH SLURM_CONF=$SLURM_CONF SLURM_JOB_ID=$SLURM_JOB_ID {OPTION}=off SRUN PROBE\n");
    let out = batch(cluster, &[], &[], &script);
    tuned(&out, wishes.len() + 1);
    let told = "at most 1024 are taken; the cluster's default is used";
    assert_eq!(out.stdout.matches(told).count(), 1, "{}", said(&out));
}

fn what_sbatch_exports_changes_nothing(cluster: &Cluster) {
    let forged = format!("--export=ALL,{OPTION}=off");
    for words in [&["--export=NONE"][..], &[forged.as_str()]] {
        let out = batch(cluster, words, &[], "SRUN PROBE\nSRUN --export=NONE PROBE\nSRUN --export=NIL PROBE");
        tuned(&out, 3);
    }
    let out = batch(cluster, &[], &[(OPTION, "off")], "SRUN PROBE");
    tuned(&out, 1);
    let out = batch(cluster, &["--export=ALL,GPU_TUNE=off"], &[], "SRUN PROBE\nunset GPU_TUNE\nSRUN PROBE");
    tuned(&out, 2);
}

fn steps_inside_steps_are_tuned_too(cluster: &Cluster) {
    let script = format!(
        "SRUN sh -c 'SRUN PROBE'\n\
         SRUN sh -c 'GPU_TUNE=classic SRUN echo it ran'\n\
         SRUN sh -c '{OPTION}=off SRUN PROBE'\n\
         SRUN sh -c 'export GPU_TUNE_SET= GPU_TUNE_PROFILE=x NCCL_DEBUG=; unset NCCL_DEBUG; SRUN PROBE'"
    );
    let out = batch(cluster, &[], &[], &script);
    tuned(&out, 3);
    assert!(!out.stdout.contains("it ran\n"), "{}", said(&out));
}

/// The default that is locked is for steps with GPUs.
fn a_step_without_gpus_is_left_alone_and_a_wrong_option_is_told(cluster: &Cluster) {
    let long = "x".repeat(5000);
    for (option, told) in [(None, ""), (Some("off"), ""), (Some(&*long), "; the step goes on without tuning")] {
        let env: Vec<_> = option.map(|text| (OPTION, text)).into_iter().collect();
        let out = cluster.run("srun", &["-n1", "sh", "-c", "echo profile: $GPU_TUNE_PROFILE"], &env).fine();
        assert_eq!(out.stdout, "profile:\n", "{out:#?}");
        assert!(out.stderr.contains(told), "{out:#?}");
        assert_eq!(out.stderr.is_empty(), told.is_empty(), "{out:#?}");
    }
}
