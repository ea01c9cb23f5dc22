//! The profiles that come with gpu-tune.

use super::*;

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
