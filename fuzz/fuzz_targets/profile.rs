//! A profile's file: read, checked, compared, resolved, and decided for a rank.
#![no_main]

use gpu_tune_engine::env::{NcclConf, RankValues, StepValues, decide};
use gpu_tune_engine::profile::{Catalog, Facts, Kind, Profile, Source, bounds, check};
use gpu_tune_engine::spec::SiteConfig;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let source = Source { file: "p.toml".into(), builtin: false };
    let (profile, findings) = Profile::parse("p", &source, text);
    assert_eq!(profile.is_none(), findings.iter().any(|finding| finding.kind == Kind::Error));
    for finding in &findings {
        assert!(finding.line <= text.lines().count() + 1, "{finding}");
        assert!(!finding.to_string().contains(['\n', '\x1b']), "{finding:?}");
    }
    let Some(profile) = profile else { return };
    assert!(profile.env.iter().all(|rule| rule.name.len() <= bounds::NAME && rule.value.to_string().len() <= 2 * bounds::VALUE));
    let mut catalog = Catalog::builtin();
    catalog.add_text("p", source, text.to_owned());
    let _ = check(&catalog, "p");
    let _ = catalog.flat("p");
    for (models, nodes) in [(vec!["NVIDIA H200"], Some(1)), (vec!["NVIDIA B200", "NVIDIA H100 NVL"], Some(2)), (vec![], None)] {
        let gpus = models.into_iter().map(str::to_owned).collect();
        let facts = Facts { gpus, nodes, arch: "x86_64".into(), ..Facts::default() };
        step(&catalog, &facts);
    }
});

/// As in a job.
fn step(catalog: &Catalog, facts: &Facts) {
    let spec = "p+roce".parse().expect("an option");
    let Ok(Some(resolved)) = catalog.resolve(&spec, &SiteConfig::default(), facts) else { return };
    let values = StepValues { nodes: facts.nodes, rocev2_gid_index: Some(Ok(3)), container: false };
    let user = |name: &str| (name.len() % 3 == 0).then(|| "user".into());
    let decisions = decide(&resolved, user, &NcclConf::parse(b"NCCL_DEBUG=INFO\n"), &values);
    assert!(decisions.windows(2).all(|pair| pair[0].name < pair[1].name), "one decision for each variable");
    let rank = RankValues { cores: Some(14), local_rank: Some(0), ..RankValues::default() };
    for decision in &decisions {
        assert_ne!(&*decision.name, "CUDA_VISIBLE_DEVICES");
        let _ = decision.for_rank(&rank, None);
        let _ = decision.for_rank(&RankValues { launcher: true, ..rank.clone() }, Some("a:b".as_ref()));
    }
}
