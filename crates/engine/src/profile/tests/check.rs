//! What `gpu-tune profile check` says.

use super::*;

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
}

#[test]
fn check_holds_variables_against_each_other() {
    let both = checked("[env]\nMKL_NUM_THREADS = \"4\"\nOMP_NUM_THREADS = \"4\"");
    assert_eq!(both.len(), 1, "told once: {both:?}");
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
fn taking_a_dangerous_variable_away_is_no_danger() {
    let catalog = catalog(&[("p", "[env]\nNCCL_ALGO = { action = \"unset\" }")]);
    let resolved = resolve(&catalog, "p", &h200(1));
    assert_eq!(
        resolved.env.iter().map(|rule| (&*rule.name, rule.action)).collect::<Vec<_>>(),
        [("NCCL_ALGO", Action::Unset)]
    );
    assert_eq!(messages(&resolved), Vec::<String>::new());
}
