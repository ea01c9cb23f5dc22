//! `gpu-tune verify` on described and on real processes.

use crate::common::{gpu_tune, scratch, told};
use gpu_tune_cli::proc::own_user;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A process of a described /proc.
struct Process<'a> {
    pid: u32,
    parent: u32,
    cmdline: &'a str,
    environ: &'a [&'a str],
    /// The CPUs of each thread.
    threads: &'a [&'a str],
    policy: &'a str,
}

fn write(path: PathBuf, text: &str) {
    fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
    fs::write(path, text).expect("a file");
}

impl Process<'_> {
    fn write(&self, root: &Path) {
        let folder = root.join(self.pid.to_string());
        write(folder.join("environ"), &(self.environ.join("\0") + "\0"));
        write(folder.join("cmdline"), &(self.cmdline.replace(' ', "\0") + "\0"));
        let status = format!("Name:\tpython\nPPid:\t{}\nUid:\t{1}\t{1}\t{1}\t{1}\n", self.parent, own_user());
        write(folder.join("status"), &status);
        for (number, cpus) in (0..).zip(self.threads) {
            let tid = self.pid + number;
            let status = format!("Name:\tpython\nPPid:\t1\nCpus_allowed_list:\t{cpus}\nMems_allowed_list:\t0-1\n");
            write(folder.join(format!("task/{tid}/status")), &status);
        }
        let maps = format!(
            "5500 {0} file=/usr/bin/python mapped=8 N0=8 kernelpagesize_kB=4\n\
             7ffc00000000 {0} stack anon=92 dirty=92 N1=92 kernelpagesize_kB=4\n",
            self.policy
        );
        write(folder.join("numa_maps"), &maps);
    }
}

const PLAN: &str = "GPU_TUNE_PLAN=1;0-31;;0-15:p0;16-31:p1";
const SHIM: &str = "LD_PRELOAD=/opt/lib/libgpu_tune_preload.so";
const COMMON: [&str; 6] =
    ["SLURM_JOB_ID=42", "SLURM_STEP_ID=0", "SLURM_LOCALID=0", "GPU_TUNE_PROFILE=h200", PLAN, SHIM];

/// What a worker of torchrun has in its environment.
fn worker<'a>(without: &str, more: &[&'a str]) -> Vec<&'a str> {
    let kept = COMMON.iter().copied().filter(|entry| *entry != without);
    kept.chain(more.iter().copied()).collect()
}

fn rank1<'a>(environ: &'a [&'a str]) -> Process<'a> {
    Process { pid: 300, parent: 100, cmdline: "python3 train.py", environ, threads: &["16-31"], policy: "prefer:1" }
}

/// What is said of torchrun with two workers, the second being this one.
fn torchrun(name: &str, last: &Process<'_>) -> String {
    let root = scratch(name);
    let agent = Process {
        pid: 100,
        parent: 90,
        cmdline: "python3 /usr/bin/torchrun train.py",
        environ: &COMMON,
        threads: &["0-31", "0-31"],
        policy: "default",
    };
    let environ = worker("", &["LOCAL_RANK=0", "NCCL_DEBUG=WARN"]);
    let rank0 = Process { pid: 200, environ: &environ, threads: &["0-15", "3"], policy: "prefer:0", ..rank1(&[]) };
    let loader = Process { pid: 210, parent: 200, threads: &["0-15"], ..rank0 };
    let stranger = Process { pid: 400, environ: &["SLURM_JOB_ID=43", "PATH=/bin"], ..rank1(&[]) };
    [&agent, &rank0, &loader, last, &stranger].iter().for_each(|process| process.write(&root));
    told(&gpu_tune(&["verify", "--job", "42", "--proc", &root.to_string_lossy()]))
}

#[test]
fn ranks_that_are_where_they_belong_get_one_line_each() {
    let environ = worker("", &["LOCAL_RANK=1", "NCCL_DEBUG=WARN"]);
    insta::assert_snapshot!("as_planned", torchrun("verify-fine", &rank1(&environ)));
}

#[test]
fn a_rank_that_lost_the_shim_is_told_with_the_reason() {
    let environ = worker(SHIM, &["LOCAL_RANK=1", "NCCL_DEBUG=INFO"]);
    let lost = Process { threads: &["0-31"], policy: "default", ..rank1(&environ) };
    insta::assert_snapshot!("lost_shim", torchrun("verify-shim", &lost));
}

#[test]
fn threads_that_nccl_moved_are_told_apart_from_the_rank() {
    let environ = worker("", &["LOCAL_RANK=1", "NCCL_IGNORE_CPU_AFFINITY=1"]);
    let text = torchrun("verify-nccl", &Process { threads: &["16-31", "0-63"], ..rank1(&environ) });
    assert!(text.starts_with("exit 1\n"), "{text}");
    let expected = "1 of 2 threads may run outside CPUs 16-31: `python`, thread 301 of process 300, on 0-63";
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("probably: NCCL_IGNORE_CPU_AFFINITY=1: NCCL gives its threads all CPUs"), "{text}");
}

#[test]
fn numactl_above_a_rank_is_named() {
    let environ = worker("", &["LOCAL_RANK=1"]);
    let numactl = Process { cmdline: "numactl --membind=0 python3 train.py", policy: "bind:0", ..rank1(&environ) };
    let text = torchrun("verify-numactl", &numactl);
    assert!(text.contains("memory policy is `bind:0`, planned is `prefer:1`"), "{text}");
    assert!(text.contains("probably: `numactl` of process 300 binds what it starts"), "{text}");
}

#[test]
fn mpirun_is_named_unless_it_was_told_not_to_bind() {
    let root = scratch("verify-mpirun");
    let environ = worker("", &["OMPI_COMM_WORLD_LOCAL_RANK=1"]);
    Process { threads: &["0-63"], ..rank1(&environ) }.write(&root);
    let blamed = |cmdline: &str| {
        Process { pid: 100, parent: 1, cmdline, ..rank1(&[]) }.write(&root);
        let text = told(&gpu_tune(&["verify", "--job", "42", "--proc", &root.to_string_lossy()]));
        assert!(text.contains("1 of 1 thread may run outside CPUs 16-31"), "{text}");
        text.contains("probably: `/usr/bin/mpirun` of process 100 binds its ranks by default: give it `--bind-to none`")
    };
    assert!(blamed("/usr/bin/mpirun -n 2 python3 train.py"));
    assert!(!blamed("/usr/bin/mpirun -n 2 --bind-to none python3 train.py"));
}

#[test]
fn a_variable_that_no_longer_has_our_value_is_named() {
    let environ = worker("", &["LOCAL_RANK=1", "GPU_TUNE_SET=NCCL_DEBUG=00000000"]);
    let text = torchrun("verify-set", &rank1(&environ));
    assert!(text.contains("changed since gpu-tune set them: NCCL_DEBUG"), "{text}");
}

#[test]
fn the_json_has_the_variables_that_matter_and_whose_they_are() {
    let root = scratch("verify-environment");
    let set = format!("GPU_TUNE_SET=NCCL_DEBUG={:08x}", gpu_tune_shim_core::bytes::hash(b"WARN"));
    let environ = worker("", &["LOCAL_RANK=1", "PATH=/bin", "OMP_NUM_THREADS=4", "NCCL_DEBUG=WARN", &set]);
    rank1(&environ).write(&root);
    let emptied = Process { pid: 400, environ: &["NCCL_DEBUG=INFO"], ..rank1(&[]) };
    emptied.write(&root);
    write(root.join("400/cgroup"), "0::/slurm/job_42/step_0/user/task_1\n");
    let output = gpu_tune(&["verify", "--json", "--job", "42", "--proc", &root.to_string_lossy()]);
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let variable =
        |name: &str, value: &str, from: &str| serde_json::json!({"name": name, "value": value, "from": from});
    let expected = [variable("NCCL_DEBUG", "WARN", "gpu-tune"), variable("OMP_NUM_THREADS", "4", "user or image")];
    let of = |pid: u32| {
        let ranks = value["ranks"].as_array().expect("ranks");
        ranks.iter().find(|rank| rank["pids"][0] == pid).expect("a rank")["environment"].clone()
    };
    assert_eq!(of(300), serde_json::json!(expected));
    assert_eq!(of(400), serde_json::json!([]));
}

#[test]
fn a_users_own_nccl_file_that_a_variable_beats_is_told() {
    let home = scratch("verify-home");
    write(home.join(".nccl.conf"), "# mine\nNCCL_DEBUG=INFO\nNCCL_SET_THREAD_NAME=1\n");
    let at_home = format!("HOME={}", home.display());
    let set = format!("GPU_TUNE_SET=NCCL_DEBUG={:08x}", gpu_tune_shim_core::bytes::hash(b"WARN"));
    let environ = worker("", &["LOCAL_RANK=1", "NCCL_DEBUG=WARN", &set, &at_home]);
    let text = torchrun("verify-nccl-conf", &rank1(&environ));
    let expected = format!("NCCL_DEBUG=WARN beats INFO in {}/.nccl.conf:2: export it", home.display());
    assert!(text.contains(&expected) && text.starts_with("exit 0\n"), "{text}");
}

#[test]
fn a_job_without_tuned_processes_exits_with_1() {
    let root = scratch("verify-none");
    let text = told(&gpu_tune(&["verify", "--job", "42", "--proc", &root.to_string_lossy()]));
    assert_eq!(
        text,
        "exit 1\n--- stdout\n--- stderr\n\
         gpu-tune: error: job 42 has no process on this node\n"
    );
}

#[test]
fn ranks_that_overwrote_their_environment_are_found_by_slurmstepd_and_known_by_their_cpus() {
    let root = scratch("verify-overwritten");
    let stepd = Process { pid: 90, parent: 1, cmdline: "slurmstepd: [42.0]", ..rank1(&[]) };
    let agent = Process { pid: 100, parent: 90, threads: &["0-31"], policy: "default", ..rank1(&COMMON) };
    let titled = Process { cmdline: "sglang::scheduler_TP1", environ: &[], policy: "default", ..rank1(&[]) };
    let loader = Process { pid: 310, parent: 300, ..titled };
    let helper = Process { pid: 320, parent: 100, threads: &["0-31"], ..titled };
    let stranger = Process { pid: 400, parent: 1, ..titled };
    [&stepd, &agent, &titled, &loader, &helper, &stranger].iter().for_each(|process| process.write(&root));
    let text = told(&gpu_tune(&["verify", "--job", "42", "--proc", &root.to_string_lossy()]));
    insta::assert_snapshot!("overwritten", text);
}

#[test]
fn a_task_that_emptied_its_environment_is_found_by_its_cgroup() {
    let root = scratch("verify-emptied");
    let common = [&COMMON[..4], &["GPU_TUNE_PLAN=1;0-15;;0-15:p0"]].concat();
    let task = Process { pid: 100, parent: 90, threads: &["0-15"], policy: "prefer:0", ..rank1(&common) };
    let emptied = Process { pid: 300, parent: 1, environ: &[], ..task };
    // A step that gpu-tune left alone, and another job.
    let other = Process { pid: 310, parent: 1, environ: &[], ..task };
    [&task, &emptied, &other].iter().for_each(|process| process.write(&root));
    write(root.join("300/cgroup"), "0::/system.slice/slurmstepd.scope/job_42/step_0/user/task_1\n");
    write(root.join("310/cgroup"), "0::/system.slice/slurmstepd.scope/job_42/step_1/user/task_0\n");
    let text = told(&gpu_tune(&["verify", "--job", "42", "--proc", &root.to_string_lossy()]));
    insta::assert_snapshot!("emptied", text);
    let text = told(&gpu_tune(&["verify", "--job", "43", "--proc", &root.to_string_lossy()]));
    assert!(text.ends_with("job 43 has no process on this node\n"), "{text}");
    fs::remove_dir_all(root.join("100")).expect("the task ends");
    let text = told(&gpu_tune(&["verify", "--job", "42", "--proc", &root.to_string_lossy()]));
    assert!(text.ends_with("tuned none of job 42's processes on this node, 2 in all\n"), "{text}");
}

/// Makes a process another user's.
fn give_away(root: &Path, pid: u32) {
    let file = root.join(format!("{pid}/status"));
    let status = fs::read_to_string(&file).expect("a status");
    let users = format!("Uid:\t{0}\t{0}\t{0}\t{0}", own_user());
    write(file, &status.replace(&users, "Uid:\t1234\t1234\t1234\t1234"));
}

#[test]
fn what_a_stranger_says_of_himself_is_not_trusted() {
    let root = scratch("verify-stranger");
    // Ranks of job 42, says a process that only calls itself slurmstepd.
    let stepd = Process { pid: 90, parent: 1, cmdline: "slurmstepd: [42.0]", environ: &[], ..rank1(&[]) };
    let below = Process { pid: 100, parent: 90, environ: &[], ..rank1(&[]) };
    [&stepd, &below].iter().for_each(|process| process.write(&root));
    let verify = || told(&gpu_tune(&["verify", "--job", "42", "--proc", &root.to_string_lossy()]));
    assert!(verify().ends_with("none of job 42's processes on this node, 1 in all\n"), "{}", verify());
    give_away(&root, 90);
    assert!(verify().ends_with("job 42 has no process on this node\n"), "{}", verify());
}

#[test]
fn a_file_that_another_users_process_names_is_not_opened() {
    let root = scratch("verify-others-file");
    let home = scratch("verify-others-home");
    write(home.join(".nccl.conf"), "NCCL_DEBUG=INFO\n");
    let at_home = format!("HOME={}", home.display());
    let set = format!("GPU_TUNE_SET=NCCL_DEBUG={:08x}", gpu_tune_shim_core::bytes::hash(b"WARN"));
    let environ = worker("", &["LOCAL_RANK=1", "NCCL_DEBUG=WARN", &set, &at_home]);
    rank1(&environ).write(&root);
    let verify = || told(&gpu_tune(&["verify", "--job", "42", "--proc", &root.to_string_lossy()]));
    assert!(verify().contains("beats INFO"), "{}", verify());
    give_away(&root, 300);
    assert!(!verify().contains("beats INFO"), "{}", verify());
}

/// What `verify` says of all processes: the first line of each row, as name, pid and state.
fn rows(root: &Path) -> Vec<[String; 3]> {
    let output = gpu_tune(&["verify", "--proc", &root.to_string_lossy()]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let row = |line: &str| {
        let (name, rest) = line.split_once("  ").expect("columns");
        let words: Vec<&str> = rest.split_whitespace().collect();
        [name, words[0], words[words.len() - 1]].map(str::to_owned)
    };
    text.lines().skip(1).take_while(|line| !line.is_empty()).map(row).collect()
}

/// Like [`rank1`], outside Slurm.
fn by_exec<'a>(pid: u32, parent: u32, environ: &'a [&'a str], cpus: &'a [&'a str]) -> Process<'a> {
    let policy = if cpus == ["0-31"] { "default" } else { "prefer:1" };
    Process { pid, parent, environ, threads: cpus, policy, ..rank1(&[]) }
}

fn is(name: &str, pid: &str, state: &str) -> [String; 3] {
    [name, pid, state].map(str::to_owned)
}

#[test]
fn outside_slurm_ranks_that_were_tuned_themselves_are_told_apart_by_plan_and_number() {
    let root = scratch("verify-exec-ranks");
    let (a, b) = ("GPU_TUNE_PLAN=1;0-15;;0-15:p1", "GPU_TUNE_PLAN=1;16-31;;16-31:p1");
    let numbered = |plan| ["GPU_TUNE_PROFILE=h200", plan];
    let rank0 = [&numbered(a)[..], &["LOCAL_RANK=0"]].concat();
    let rank1 = [&numbered(b)[..], &["OMPI_COMM_WORLD_LOCAL_RANK=1"]].concat();
    by_exec(100, 1, &rank0, &["0-15"]).write(&root);
    by_exec(110, 100, &rank0, &["0-15"]).write(&root);
    by_exec(200, 1, &rank1, &["16-31"]).write(&root);
    assert_eq!(rows(&root), [is("0", "100", "ok"), is("1", "200", "ok")]);
    // Two more without a number, one of them with a worker.
    let (plain, other) = (numbered(a), numbered(b));
    by_exec(300, 1, &plain, &["0-15"]).write(&root);
    by_exec(310, 300, &plain, &["0-15"]).write(&root);
    by_exec(400, 1, &other, &["16-31"]).write(&root);
    let more = [is("0", "100", "ok"), is("1", "200", "ok"), is("pid 300", "300", "ok"), is("pid 400", "400", "ok")];
    assert_eq!(rows(&root), more);
    // Another user's process, which calls itself rank 0 with this very plan, and is elsewhere.
    by_exec(500, 1, &rank0, &["0-63"]).write(&root);
    give_away(&root, 500);
    let told: Vec<_> = rows(&root).into_iter().filter(|[name, ..]| name.starts_with('0')).collect();
    assert_eq!(told, [is("0 (pid 100)", "100", "ok"), is("0 (pid 500)", "500", "differs")]);
}

#[test]
fn outside_slurm_two_launchers_keep_their_ranks() {
    let root = scratch("verify-exec-launchers");
    let launcher = ["GPU_TUNE_PROFILE=h200", PLAN, SHIM];
    let rank = [&launcher[..], &["LOCAL_RANK=1"]].concat();
    for first in [100, 200] {
        by_exec(first, 1, &launcher, &["0-31"]).write(&root);
        by_exec(first + 10, first, &rank, &["16-31"]).write(&root);
        by_exec(first + 20, first + 10, &rank, &["16-31"]).write(&root);
    }
    let expected = [
        is("launcher 100", "100", "ok"),
        is("100.1", "110", "ok"),
        is("launcher 200", "200", "ok"),
        is("200.1", "210", "ok"),
    ];
    assert_eq!(rows(&root), expected);
    ["200", "210", "220"].iter().for_each(|pid| fs::remove_dir_all(root.join(pid)).expect("the second one ends"));
    assert_eq!(rows(&root), [is("launcher", "100", "ok"), is("1", "110", "ok")]);
}

#[test]
fn an_environment_bigger_than_any_real_one_is_not_read() {
    let root = scratch("verify-huge");
    let task = Process { pid: 100, parent: 90, ..rank1(&COMMON) };
    let filler = format!("A={}", "x".repeat(8 << 20));
    let huge = [&COMMON[..], &[filler.as_str()]].concat();
    let huge = Process { pid: 300, parent: 1, environ: &huge, ..task };
    [&task, &huge].iter().for_each(|process| process.write(&root));
    write(root.join("300/cgroup"), "0::/system.slice/slurmstepd.scope/job_42/step_0/user/task_1\n");
    let text = told(&gpu_tune(&["verify", "--job", "42", "--proc", &root.to_string_lossy()]));
    let expected = "\npid 300\n  its plan is unknown: its environment, or what its user's processes have in all, is bigger than \
                    is read\n";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn slurms_own_traces_beat_what_a_process_says_of_its_job() {
    let root = scratch("verify-other-job");
    let task = Process { pid: 100, parent: 90, threads: &["0-31"], policy: "default", ..rank1(&COMMON) };
    let stepd = Process { pid: 190, parent: 1, cmdline: "slurmstepd: [43.0]", environ: &[], ..task };
    let below = Process { pid: 200, parent: 190, ..task };
    let inside = Process { pid: 300, parent: 1, ..task };
    [&task, &stepd, &below, &inside].iter().for_each(|process| process.write(&root));
    write(root.join("300/cgroup"), "0::/system.slice/slurmstepd.scope/job_43/step_0/user/task_1\n");
    let pids = |options: &[&str]| {
        let output = gpu_tune(&[options, &["--json", "--proc", &root.to_string_lossy()]].concat());
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        value["ranks"][0]["pids"].clone()
    };
    assert_eq!(pids(&["verify", "--job", "42"]), serde_json::json!([100]));
    assert_eq!(pids(&["verify", "--pid", "300"]), serde_json::json!([300]));
}

#[test]
fn text_of_processes_can_neither_play_with_a_terminal_nor_forge_lines() {
    let hostile = "NCCL_DEBUG=\x1b]0;title\x07\nrank 7\n  fine";
    let environ = worker("", &["LOCAL_RANK=1", hostile]);
    let text = torchrun("verify-escape", &rank1(&environ));
    assert!(text.contains("NCCL_DEBUG=\\u{1b}]0;title\\u{7}\\nrank 7\\n  fine"), "{text}");
}

#[test]
fn processes_that_seem_each_others_parents_are_no_trap() {
    let root = scratch("verify-circle");
    for (pid, parent) in [(100, 300), (300, 100)] {
        Process { pid, parent, environ: &[], ..rank1(&[]) }.write(&root);
        write(root.join(format!("{pid}/cgroup")), "0::/slurm/job_42/step_0/user/task_1\n");
    }
    let task = Process { pid: 50, parent: 1, ..rank1(&COMMON) };
    task.write(&root);
    let text = told(&gpu_tune(&["verify", "--job", "42", "--proc", &root.to_string_lossy()]));
    assert!(text.contains("its plan is unknown"), "{text}");
}

/// A process of our own, ended with the test.
struct Running(Child);

impl Running {
    fn with_plan(plan: &str) -> Self {
        let mut command = Command::new("sleep");
        command.arg("60").env("GPU_TUNE_PLAN", plan).env("GPU_TUNE_PROFILE", "h200").stdin(Stdio::null());
        Self(command.spawn().expect("sleep starts"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_process_that_nobody_tuned_is_nothing_to_look_at() {
    let mut command = Command::new("sleep");
    command.arg("60").env_remove("GPU_TUNE_PROFILE").env_remove("GPU_TUNE_PLAN").stdin(Stdio::null());
    let running = Running(command.spawn().expect("sleep starts"));
    let text = told(&gpu_tune(&["verify", "--pid", &running.0.id().to_string()]));
    assert!(text.starts_with("exit 1\n") && text.contains("gpu-tune did not tune this process"), "{text}");
}

#[test]
fn each_process_that_was_named_and_is_not_seen_is_told() {
    let root = scratch("verify-missing");
    let environ = worker("", &["LOCAL_RANK=1"]);
    let filler = format!("A={}", "x".repeat(8 << 20));
    rank1(&environ).write(&root);
    Process { pid: 400, environ: &[&filler], ..rank1(&[]) }.write(&root);
    let verify =
        |options: &[&str]| told(&gpu_tune(&[&["verify", "--proc", &root.to_string_lossy()][..], options].concat()));
    let missing = "--- stderr\n\
                   gpu-tune: error: process 400 cannot be looked at: its environment, or what its user's processes have in all, \
                   is bigger than is read\n\
                   gpu-tune: error: there is no process 999999 on this node\n";
    let text = verify(&["--pid", "300", "--pid", "400,999999"]);
    assert!(text.starts_with("exit 1\n--- stdout\njob 42, step 0\n") && text.ends_with(missing), "{text}");
    assert!(verify(&["--json", "--pid", "300,400,999999"]).contains("--- stdout\n{\"schema\":1"));
    assert_eq!(verify(&["--pid", "400,999999"]), format!("exit 1\n--- stdout\n{missing}"));
    assert!(verify(&["--pid", "300"]).starts_with("exit 0\n"));
}

#[test]
fn a_real_process_is_read_back_from_the_kernel() {
    let status = fs::read_to_string("/proc/self/status").expect("a status");
    let here = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("CPUs").trim();
    for (plan, code) in [(format!("1;{here};;{here}"), 0), ("1;4000;;4000".to_owned(), 1)] {
        let running = Running::with_plan(&plan);
        let output = gpu_tune(&["verify", "--json", "--pid", &running.0.id().to_string()]);
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(output.status.code(), Some(code), "{value}");
        assert_eq!(value["ranks"][0]["cpus"], here);
        assert_eq!(value["ranks"][0]["ok"], code == 0);
    }
}
