//! `gpu-tune verify` on a real Slurm: it finds every process that Slurm itself counts to the job, also those that hide their
//! environment, and says what undid a binding.
#![cfg(test)]

mod slurm;

use serde_json::Value;
use slurm::run::AS_NOBODY;
use slurm::{Cluster, Setup};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// A step that runs beside the test, in a job of its own.
struct Beside {
    srun: Child,
    job: String,
}

impl Beside {
    /// `srun OPTIONS sh -c SCRIPT`, once one task wrote the job's number into `$OUT`.
    fn start(cluster: &Cluster, user: &[&str], options: &str, script: &str) -> Self {
        let out = cluster.place.outside("out/ready");
        let _ = std::fs::remove_file(&out);
        let words = [user, &["srun"], &options.split_whitespace().collect::<Vec<_>>(), &["sh", "-c", script]].concat();
        let mut srun = cluster.command(words[0]);
        srun.args(&words[1..]).env("OUT", cluster.place.inside("out/ready")).env("BIN", cluster.place.inside("bin"));
        let srun = srun.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let end = Instant::now() + slurm::place::patience(30);
        let job = loop {
            assert!(Instant::now() < end, "no task is ready\n{}", cluster.place.logs());
            std::thread::sleep(Duration::from_millis(50));
            match std::fs::read_to_string(&out).unwrap_or_default().trim() {
                "" => {}
                job => break job.to_owned(),
            }
        };
        // The other tasks, and what each started last, follow at once.
        std::thread::sleep(Duration::from_secs(1));
        Self { srun, job }
    }

    fn end(mut self, cluster: &Cluster) {
        cluster.run("scancel", &[&self.job], &[]);
        let _ = self.srun.wait();
    }
}

/// A cluster with programs that sleep under names of their own, the last one set-uid.
fn cluster(setup: Setup) -> Option<Cluster> {
    let cluster = Cluster::start(setup)?;
    for name in ["plain", "emptied", "left", "setuid"] {
        std::fs::copy("/bin/sleep", cluster.place.outside(&format!("bin/{name}"))).unwrap();
    }
    let setuid = cluster.place.outside("bin/setuid");
    std::fs::set_permissions(setuid, std::fs::Permissions::from_mode(0o4755)).unwrap();
    Some(cluster)
}

/// Exit status and document of `verify --job`.
fn verify(cluster: &Cluster, user: &[&str], job: &str) -> (i32, Value) {
    let program = cluster.place.inside("bin/gpu-tune").display().to_string();
    let words = [user, &[&program, "verify", "--json", "--job", job]].concat();
    let out = cluster.run(words[0], &words[1..], &[]);
    (out.code, serde_json::from_str(&out.stdout).unwrap_or_else(|_| panic!("{out:#?}")))
}

fn pids(document: &Value) -> BTreeSet<u64> {
    let ranks = document["ranks"].as_array().unwrap().iter();
    ranks.flat_map(|rank| rank["pids"].as_array().unwrap()).map(|pid| pid.as_u64().unwrap()).collect()
}

/// What Slurm counts to the job, without its own slurmstepd.
fn listed(cluster: &Cluster, job: &str) -> BTreeSet<u64> {
    let said = cluster.run("scontrol", &["listpids", job, "n1"], &[]).fine().stdout;
    let all = said.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok());
    all.filter(|pid| {
        !std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().starts_with("slurmstepd")
    })
    .collect()
}

/// The rank that has a process whose name begins so.
fn rank<'a>(document: &'a Value, name: &str) -> &'a Value {
    let named =
        |pid: &Value| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.starts_with(name));
    let ranks = document["ranks"].as_array().unwrap();
    let found = ranks.iter().find(|rank| rank["pids"].as_array().unwrap().iter().any(named));
    found.unwrap_or_else(|| panic!("no {name} in {document}"))
}

const TWO: &str = "-n2 -c1 --gpus-per-task=1 --gpu-tune=h200";
/// Perl, as setproctitle does, writes its title over arguments and environment. (Slurm's linuxproc loses a process whose name
/// has a blank in it.)
const TITLED: &str = "perl -e '$0 = q(titled) . q(-) x 8000; sleep 120'";

#[test]
fn every_process_that_slurm_counts_is_found_whatever_became_of_its_environment() {
    for setup in [Setup::default(), Setup::default().constrained()] {
        let Some(mut cluster) = cluster(setup) else { return };
        let script = format!(
            r#"[ $SLURM_PROCID = 0 ] || exec env -i "$BIN/emptied" 120
            "$BIN/plain" 120 & {TITLED} & setsid "$BIN/left" 120 & echo $SLURM_JOB_ID >"$OUT"; wait"#
        );
        let step = Beside::start(&cluster, &[], TWO, &script);
        let (code, found) = verify(&cluster, &[], &step.job);
        assert_eq!(pids(&found), listed(&cluster, &step.job), "{found}");
        let [plain, titled, left, emptied] = ["plain", "titled", "left", "emptied"].map(|name| rank(&found, name));
        assert_eq!((plain, plain), (titled, left), "all of one task: {found}");
        assert_eq!((code, &plain["task"], &plain["ok"]), (0, &0.into(), &true.into()), "{found}");
        assert_eq!(emptied["ok"], Value::Null, "{found}");
        assert!(emptied["notes"][0].as_str().unwrap().starts_with("its plan is unknown: its environment"), "{found}");
        step.end(&cluster);
        cluster.check_alive();
    }
}

#[test]
fn a_launchers_rank_that_wrote_over_its_environment_is_known_by_its_cpus() {
    let Some(cluster) = cluster(Setup::default()) else { return };
    if slurm::machine::online_cpus() < 2 {
        println!("skipped: needs two CPUs");
        return;
    }
    let script = format!("LOCAL_RANK=1 {TITLED} & echo $SLURM_JOB_ID >\"$OUT\"; wait");
    let step = Beside::start(&cluster, &[], "-n1 -c2 --gpus-per-task=2 --gpu-tune=h200", &script);
    let (code, found) = verify(&cluster, &[], &step.job);
    let titled = rank(&found, "titled");
    assert_eq!((code, &titled["local_rank"], &titled["ok"]), (0, &1.into(), &true.into()), "{found}");
    assert!(titled["notes"][0].as_str().unwrap().starts_with("known by its CPUs only"), "{found}");
    step.end(&cluster);
}

#[test]
fn a_set_uid_rank_is_shown_to_its_user_and_read_by_root() {
    let Some(cluster) = cluster(Setup::default()) else { return };
    let script =
        r#"echo $SLURM_JOB_ID >"$OUT"; [ $SLURM_PROCID = 0 ] || exec "$BIN/plain" 120; exec "$BIN/setuid" 120"#;
    let step = Beside::start(&cluster, &AS_NOBODY, TWO, script);
    let (_, users) = verify(&cluster, &AS_NOBODY, &step.job);
    assert_eq!(rank(&users, "plain")["ok"], true, "{users}");
    assert!(rank(&users, "setuid")["notes"][0].as_str().unwrap().contains("only root may read"), "{users}");
    let (code, roots) = verify(&cluster, &[], &step.job);
    assert_eq!((code, &rank(&roots, "setuid")["ok"]), (0, &true.into()), "{roots}");
    step.end(&cluster);
}

#[test]
fn a_rank_that_was_bound_elsewhere_since_is_a_difference() {
    let Some(cluster) = cluster(Setup::default()) else { return };
    if slurm::machine::online_cpus() < 2 {
        println!("skipped: needs two CPUs");
        return;
    }
    let script = r#"echo $SLURM_JOB_ID >"$OUT"; exec taskset -c 0,1 "$BIN/plain" 120"#;
    let step = Beside::start(&cluster, &[], TWO, script);
    let (code, found) = verify(&cluster, &[], &step.job);
    assert_eq!(code, 1, "{found}");
    assert!(rank(&found, "plain")["differences"][0].as_str().unwrap().contains("may run outside CPUs"), "{found}");
    step.end(&cluster);
}
