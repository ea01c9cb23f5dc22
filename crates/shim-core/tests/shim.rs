//! The built shim, loaded into real programs. Another witness, the kernel's `/proc/self/status`, tells what became of them.
//!
//! The tests need two CPUs, and say so where there is one. The shim's package cannot test itself: it has neither a standard
//! library nor a panic handler that could print.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "the helpers of tests are tests, too")]

use gpu_tune_engine::os::Os;
use gpu_tune_engine::os::linux::Linux;
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The shim, built once; `GPU_TUNE_SHIM` names one that is built already, where the tests run without cargo (tests/arm).
fn shim() -> &'static Path {
    static SHIM: OnceLock<PathBuf> = OnceLock::new();
    SHIM.get_or_init(|| {
        if let Some(built) = std::env::var_os("GPU_TUNE_SHIM") {
            return built.into();
        }
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("shim-build");
        let build = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--package", "gpu-tune-preload", "--profile", "shim", "--target-dir"])
            .arg(&target)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .unwrap();
        assert!(build.success(), "the shim does not build");
        target.join("shim/libgpu_tune_preload.so")
    })
}

/// The CPUs of this test, one number each; `None`, and a line, if there are too few.
fn two_cpus() -> Option<(String, String, String)> {
    let all = field(&std::fs::read_to_string("/proc/self/status").unwrap(), "Cpus_allowed_list");
    let ids: Vec<_> = all.split([',', '-']).map(str::to_string).collect();
    match &ids[..] {
        [first, .., last] => Some((all.clone(), first.clone(), last.clone())),
        _ => {
            println!("skipped: needs two CPUs");
            None
        }
    }
}

/// Whether memory policies can be tested here. An emulator lacks their calls.
fn has_policies() -> bool {
    let missing = Linux.get_mempolicy().is_err() || !Path::new("/proc/self/numa_maps").exists();
    if missing {
        println!("skipped: no calls for memory policies here (an emulator, or a kernel without NUMA)");
    }
    !missing
}

/// Whether numactl can be tried here. What an emulator tells of a program that is not there is status 127.
fn has_numactl() -> bool {
    let there = Command::new("numactl").arg("--show").output().is_ok_and(|said| said.status.code() != Some(127));
    if !there {
        println!("skipped: no numactl");
    }
    there && has_policies()
}

fn field(status: &str, name: &str) -> String {
    let line = status.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name} in {status:?}"));
    line.split_whitespace().nth(1).unwrap_or_default().to_string()
}

/// A command under the shim, with a plan.
fn under_shim(program: impl AsRef<std::ffi::OsStr>, plan: &str, vars: &[(&str, &str)]) -> Command {
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", shim()).env("GPU_TUNE_PLAN", plan).env_remove("LOCAL_RANK");
    command.envs(vars.iter().copied());
    command
}

fn success(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&stderr);
    assert!(status.success() && stderr.is_empty(), "{command:?}: {status}: {stderr}");
    String::from_utf8(stdout).unwrap()
}

/// The CPUs that `cat` has in a process with these variables.
fn cpus_of_cat(plan: &str, vars: &[(&str, &str)]) -> String {
    field(&success(under_shim("cat", plan, vars).arg("/proc/self/status")), "Cpus_allowed_list")
}

/// Compiles a C program, or says why not.
fn compiled(compiler: &str, name: &str, flags: &[&str]) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, program) = (folder.join(format!("{name}.c")), folder.join(name));
    let text = r#"
        #include <stdio.h>
        int main(void) {
            char line[512];
            FILE *status = fopen("/proc/self/status", "r");
            while (fgets(line, sizeof line, status)) fputs(line, stdout);
            return 0;
        }"#;
    std::fs::write(&source, text).unwrap();
    match Command::new(compiler).args(flags).arg("-o").arg(&program).arg(&source).output() {
        // What an emulator tells of a program that is not there.
        Ok(output) if output.status.code() == Some(127) => {
            println!("skipped: no {compiler}");
            None
        }
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(program)
        }
        Err(error) => {
            println!("skipped: {compiler}: {error}");
            None
        }
    }
}

#[test]
fn a_rank_has_its_own_cpus_and_every_other_process_keeps_the_launchers() {
    let Some((all, first, last)) = two_cpus() else { return };
    let plan = format!("1;{all};;{first};{last}");
    assert_eq!(cpus_of_cat(&plan, &[("LOCAL_RANK", "0")]), first);
    assert_eq!(cpus_of_cat(&plan, &[("LOCAL_RANK", "1")]), last);
    assert_eq!(cpus_of_cat(&plan, &[("OMPI_COMM_WORLD_LOCAL_RANK", "1")]), last);
    for vars in [&[][..], &[("RANK", "1")], &[("LOCAL_RANK", "2")], &[("LOCAL_RANK", "")]] {
        assert_eq!(cpus_of_cat(&plan, vars), all, "{vars:?}");
    }
}

#[test]
fn a_rank_with_a_plan_that_is_none_is_left_alone() {
    let Some((all, first, _)) = two_cpus() else { return };
    for plan in ["", "x", "1", &format!("2;{all};;{first}"), &format!("1;{all};;9999"), &format!("1;{all};;,")] {
        assert_eq!(cpus_of_cat(plan, &[("LOCAL_RANK", "0")]), all, "{plan:?}");
    }
}

#[test]
fn a_rank_gets_its_memory_policy_and_its_children_keep_both() {
    let Some((all, first, last)) = two_cpus() else { return };
    let plan = format!("1;{all};;{first}:p0;{last}:b0");
    let policy = |rank, script| {
        let maps = success(under_shim("sh", &plan, &[("LOCAL_RANK", rank)]).args(["-c", script]));
        maps.split_whitespace().nth(1).unwrap().to_string()
    };
    if !has_policies() {
        return;
    }
    assert_eq!(policy("0", "exec cat /proc/$$/numa_maps"), "prefer:0");
    assert_eq!(policy("1", "exec cat /proc/$$/numa_maps"), "bind:0");
    // A child that looks like another rank, as a data loader of a rank may: it keeps the rank's.
    assert_eq!(policy("0", "LOCAL_RANK=1 cat /proc/self/numa_maps"), "prefer:0");
    let child =
        success(under_shim("sh", &plan, &[("LOCAL_RANK", "0")]).args(["-c", "LOCAL_RANK=1 cat /proc/self/status"]));
    assert_eq!(field(&child, "Cpus_allowed_list"), first);
}

#[test]
fn several_nodes_are_preferred_together_or_the_first_alone() {
    let Some((all, first, last)) = two_cpus() else { return };
    if !has_policies() {
        return;
    }
    // Node 1 may not exist here: the kernel takes what it knows of the list. Before 5.15 it refuses all of it, and the first
    // node alone is preferred.
    let plan = format!("1;{all};;{first}:p0/0-1;{last}");
    let maps = success(under_shim("cat", &plan, &[("LOCAL_RANK", "0")]).arg("/proc/self/numa_maps"));
    let line = maps.lines().next().unwrap();
    assert!(line.contains(" prefer (many):0") || line.contains(" prefer:0"), "{line}");
}

#[test]
fn what_a_user_narrowed_stays_as_it_is() {
    let Some((all, first, last)) = two_cpus() else { return };
    let plan = format!("1;{all};;{first};{last}");
    let narrowed = ["-c", &first, "env", "LOCAL_RANK=1", "cat", "/proc/self/status"];
    assert_eq!(field(&success(under_shim("taskset", &plan, &[]).args(narrowed)), "Cpus_allowed_list"), first);
}

/// What a rank's script does with numactl, and what then holds: the CPUs and the policy.
fn by_numactl(plan: &str, script: &str) -> (String, String) {
    let mut shell = under_shim("sh", plan, &[("LOCAL_RANK", "1")]);
    let said = success(shell.args(["-c", &format!("{script} cat /proc/self/status /proc/self/numa_maps")]));
    let (status, maps) = said.split_at(said.rfind("nonvoluntary_ctxt_switches").unwrap());
    let policy = maps.lines().nth(1).unwrap().split_whitespace().nth(1).unwrap();
    (field(status, "Cpus_allowed_list"), policy.to_owned())
}

#[test]
fn numactl_in_a_ranks_script_may_name_the_launchers_cpus_and_nothing_of_ours_stays() {
    let Some((all, first, last)) = two_cpus() else { return };
    if !has_numactl() {
        return;
    }
    let plan = format!("1;{all};;{first};{last}:p0");
    let check = |script: &str, cpus: &str, policy: &str| {
        assert_eq!(by_numactl(&plan, script), (cpus.to_owned(), policy.to_owned()), "{script}");
    };
    check("", &last, "prefer:0");
    // Alone numactl refuses this CPU: the shell was bound to the other one.
    check(&format!("numactl --physcpubind={first}"), &first, "default");
    check("numactl --all --physcpubind=all --membind=0", &all, "bind:0");
    // Who places memory only keeps his cores.
    check("numactl --membind=0", &last, "bind:0");
    check(&format!("taskset -c {first}"), &first, "default");
    check(&format!("numactl --membind=0 taskset -c {first}"), &first, "bind:0");
    // It changes nothing of what the launcher had, so what it runs is the rank.
    check(&format!("taskset -c {all}"), &last, "prefer:0");
    let shown = success(under_shim("numactl", &plan, &[("LOCAL_RANK", "1")]).arg("--show"));
    assert!(shown.contains(&format!("physcpubind: {last} \n")), "{shown}");
}

#[test]
fn a_memory_policy_around_the_launcher_stays_and_its_ranks_have_their_cpus() {
    let Some((all, first, last)) = two_cpus() else { return };
    if !has_numactl() {
        return;
    }
    let rank = ["--interleave=0", "env", "LOCAL_RANK=1", "cat", "/proc/self/status", "/proc/self/numa_maps"];
    let found = |plan: &str| {
        let said = success(under_shim("numactl", plan, &[]).args(rank));
        assert!(said.contains(" interleave:0 "), "{said}");
        field(&said, "Cpus_allowed_list")
    };
    assert_eq!(found(&format!("1;{all};;{first};{last}")), last, "no memory is planned: the policy is not ours");
    assert_eq!(found(&format!("1;{all};;{first}:p0;{last}:p0")), all, "somebody else bound this rank");
}

#[test]
fn a_container_that_gave_the_launcher_a_local_rank_makes_it_no_rank() {
    let Some((all, first, last)) = two_cpus() else { return };
    let plan = format!("1;{all};LOCAL_RANK={:08x};{first};{last}", gpu_tune_shim_core::bytes::hash(b"0"));
    assert_eq!(cpus_of_cat(&plan, &[("LOCAL_RANK", "0")]), all);
    assert_eq!(cpus_of_cat(&plan, &[("LOCAL_RANK", "0"), ("TORCHELASTIC_RUN_ID", "none")]), first);
    assert_eq!(cpus_of_cat(&plan, &[("LOCAL_RANK", "1"), ("TORCHELASTIC_RUN_ID", "none")]), last);
}

#[test]
fn a_musl_program_is_bound_like_any_other() {
    let Some((all, first, last)) = two_cpus() else { return };
    let Some(program) = compiled("musl-gcc", "status-musl", &[]) else { return };
    let plan = format!("1;{all};;{first};{last}");
    for (rank, cpus) in [("0", &first), ("1", &last), ("2", &all)] {
        let status = success(&mut under_shim(&program, &plan, &[("LOCAL_RANK", rank)]));
        assert_eq!(&field(&status, "Cpus_allowed_list"), cpus, "local rank {rank}");
    }
    // An environment longer than one page, with the plan behind it.
    let mut command = under_shim(&program, &plan, &[("LOCAL_RANK", "1")]);
    command.env_clear().env("A", "x".repeat(100_000)).env("LD_PRELOAD", shim());
    command.env("GPU_TUNE_PLAN", &plan).env("LOCAL_RANK", "1");
    assert_eq!(field(&success(&mut command), "Cpus_allowed_list"), last);
}

#[test]
fn a_static_program_and_one_with_a_sanitizer_run_as_before() {
    let Some((all, first, last)) = two_cpus() else { return };
    let plan = format!("1;{all};;{first};{last}");
    if let Some(program) = compiled("gcc", "status-static", &["-static"]) {
        let status = success(&mut under_shim(program, &plan, &[("LOCAL_RANK", "1")]));
        assert_eq!(field(&status, "Cpus_allowed_list"), all);
    }
    if !has_policies() {
        return println!("skipped: a sanitizer maps more memory than an emulator can");
    }
    if let Some(program) = compiled("gcc", "status-asan", &["-fsanitize=address"]) {
        // The sanitizer wants to come first in the list. Where its user does not put it there, this option lets us be.
        let vars = [("LOCAL_RANK", "1"), ("ASAN_OPTIONS", "verify_asan_link_order=0")];
        let status = success(&mut under_shim(&program, &plan, &vars));
        assert_eq!(field(&status, "Cpus_allowed_list"), last);
        let library = Command::new("gcc").arg("-print-file-name=libasan.so").output().unwrap();
        let library = String::from_utf8(library.stdout).unwrap();
        let both = format!("{}:{}", library.trim(), shim().display());
        let status = success(under_shim(&program, &plan, &[("LOCAL_RANK", "1")]).env("LD_PRELOAD", both));
        assert_eq!(field(&status, "Cpus_allowed_list"), last);
    }
}

#[test]
fn the_file_needs_no_library_and_exports_nothing() {
    let bytes = std::fs::read(shim()).unwrap();
    assert!(bytes.len() < 16 << 10, "{} bytes", bytes.len());
    let header = object::elf::FileHeader64::<object::Endianness>::parse(&*bytes).unwrap();
    let endian = header.endian().unwrap();
    let segments = header.program_headers(endian, &*bytes).unwrap();
    let (entries, _) =
        segments.iter().find_map(|segment| segment.dynamic(endian, &*bytes).unwrap().map(|d| (d, ()))).unwrap();
    let tags: Vec<_> = entries.iter().map(|entry| u32::try_from(entry.d_tag(endian)).unwrap()).collect();
    assert!(tags.contains(&object::elf::DT_INIT_ARRAY), "no constructor: {tags:x?}");
    for (tag, name) in [
        (object::elf::DT_NEEDED, "DT_NEEDED"),
        (object::elf::DT_TEXTREL, "DT_TEXTREL"),
        (object::elf::DT_JMPREL, "DT_JMPREL"),
    ] {
        assert!(!tags.contains(&tag), "{name}");
    }
    let stack = segments.iter().find(|segment| segment.p_type(endian) == object::elf::PT_GNU_STACK).unwrap();
    assert_eq!(stack.p_flags(endian) & object::elf::PF_X, 0, "would make every program's stack executable");
    let sections = header.sections(endian, &*bytes).unwrap();
    let symbols = sections.symbols(endian, &*bytes, object::elf::SHT_DYNSYM).unwrap();
    // Local entries are the linker's own: of its sections, and the empty one that every table begins with.
    let names: Vec<_> =
        symbols.iter().filter(|s| s.st_bind() != object::elf::STB_LOCAL).map(|s| s.st_name.get(endian)).collect();
    assert!(names.is_empty(), "exports or imports {} symbols", names.len());
}

/// The linker proves that the shim has no path that panics; here is what is left of the words such a path would carry.
#[test]
fn the_file_carries_no_panic_message() {
    let bytes = std::fs::read(shim()).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    for word in ["panic", "overflow", "out of bounds", "unwrap", ".rs"] {
        assert!(!text.contains(word), "{word}");
    }
    assert!(text.contains("GPU_TUNE_PLAN"), "looked into the wrong file");
}
