//! Who wins, and what the tasks get.

use super::*;
use crate::profile::{Catalog, Facts, Source};
use crate::spec::SiteConfig;
use std::collections::BTreeMap;
use std::ffi::OsStr;

/// One profile for a step of one node; `builtin` makes it as if it came with gpu-tune.
fn resolved(env: &str, builtin: bool) -> Resolved {
    let mut catalog = Catalog::default();
    catalog.add_text("p", Source { file: "p.toml".into(), builtin }, format!("[env]\n{env}"));
    let facts = Facts { nodes: Some(1), ..Facts::default() };
    catalog.resolve(&"p".parse().unwrap(), &SiteConfig::default(), &facts).unwrap().unwrap()
}

#[derive(Default)]
struct Case<'a> {
    env: &'a str,
    builtin: bool,
    user: &'a [(&'a str, &'a str)],
    conf: &'a str,
    container: bool,
    /// What the task's environment holds when our hook runs.
    image: &'a [(&'a str, &'a str)],
}

impl Case<'_> {
    /// What becomes of the single variable: the change, and the reason given.
    fn run(&self, rank: &RankValues) -> (Change, String) {
        let user: BTreeMap<&str, &str> = self.user.iter().copied().collect();
        let image: BTreeMap<&str, &str> = self.image.iter().copied().collect();
        let values = StepValues { nodes: Some(1), container: self.container, ..StepValues::default() };
        let conf = NcclConf::parse(self.conf.as_bytes());
        let decisions =
            decide(&resolved(self.env, self.builtin), |name| user.get(name).map(OsString::from), &conf, &values);
        let [decision] = decisions.as_slice() else { panic!("{decisions:?}") };
        let current = image.get(&*decision.name).copied().map(OsStr::new);
        (decision.for_rank(rank, current), decision.reason.clone())
    }

    fn change(&self) -> Change {
        self.run(&RankValues::default()).0
    }
}

fn set(value: &str) -> Change {
    Change::Set(value.into())
}

/// The user's own value.
fn his(value: &str) -> Change {
    Change::Restore(value.into())
}

#[test]
fn the_order_of_precedence_holds_pair_by_pair() {
    let warn = "NCCL_DEBUG = \"WARN\"";
    let user: &[(&str, &str)] = &[("NCCL_DEBUG", "INFO")];
    let image: &[(&str, &str)] = &[("NCCL_DEBUG", "TRACE")];
    let conf = "NCCL_DEBUG=VERSION\n";
    let case = Case { env: warn, ..Case::default() };
    assert_eq!(case.change(), set("WARN"));
    assert_eq!(Case { user, ..case }.run(&RankValues::default()), (his("INFO"), "set by the user".into()));
    assert_eq!(Case { user, image, ..case }.change(), his("INFO"), "the user's value comes back over the image's");
    assert_eq!(Case { image, ..case }.change(), set("WARN"), "a profile's value beats the image's");
    assert_eq!(Case { conf, ..case }.change(), set("WARN"), "the admin's directory beats /etc/nccl.conf");
    let builtin = Case { builtin: true, ..case };
    let left = Case { conf, ..builtin }.run(&RankValues::default());
    assert_eq!(left, (Change::Nothing, "set in /etc/nccl.conf:1".into()));
    let (change, reason) = Case { conf, image, container: true, ..builtin }.run(&RankValues::default());
    assert_eq!(change, set("VERSION"), "a container does not see the host's file, so its value is set");
    assert_eq!(reason, "from the host's /etc/nccl.conf:1, which a container does not see");
    assert_eq!(Case { user, conf, ..builtin }.change(), his("INFO"));
    let force = Case { env: "NCCL_DEBUG = { value = \"WARN\", action = \"force\" }", builtin: true, ..case };
    let (change, reason) = Case { user, conf, image, ..force }.run(&RankValues::default());
    assert_eq!((change, reason), (set("WARN"), "forced by the admin in place of the user's `INFO`".into()));
    assert_eq!(Case { user: &[("NCCL_DEBUG", "WARN")], ..force }.run(&RankValues::default()).1, "");
}

#[test]
fn nccl_conf_holds_back_only_nccls_own_variables() {
    let case = Case { env: "OMP_NUM_THREADS = \"4\"", builtin: true, conf: "OMP_NUM_THREADS=1\n", ..Case::default() };
    assert_eq!(case.change(), set("4"));
}

#[test]
fn an_empty_value_of_the_users_is_his_value() {
    let case = Case { env: "NCCL_IB_HCA = \"=mlx5_0\"", user: &[("NCCL_IB_HCA", "")], ..Case::default() };
    assert_eq!(case.change(), his(""));
}

#[test]
fn unset_takes_away_what_the_user_did_not_export() {
    let case = Case { env: "A = { action = \"unset\" }", image: &[("A", "1")], ..Case::default() };
    assert_eq!(case.change(), Change::Unset);
    assert_eq!(Case { user: &[("A", "2")], ..case }.change(), his("2"));
}

#[test]
fn items_are_put_around_what_the_task_has_and_only_once() {
    let both = "P = [{ value = \"/a\", action = \"prepend\" }, { value = \"/b\", action = \"append\" }]";
    let case = Case { env: both, ..Case::default() };
    assert_eq!(case.change(), set("/a:/b"));
    assert_eq!(Case { image: &[("P", "/x:/y")], ..case }.change(), set("/a:/x:/y:/b"));
    assert_eq!(Case { image: &[("P", "/a:/x:/b")], ..case }.change(), set("/a:/x:/b"), "a step in a step");
    let user: &[(&str, &str)] = &[("P", "/host")];
    let in_image = Case { user, image: &[("P", "/image")], ..case };
    assert_eq!(in_image.change(), set("/a:/image:/b"), "a container needs its own list");
    let comma = Case { env: "S = { value = \"ENV\", action = \"append\", separator = \",\" }", ..Case::default() };
    assert_eq!(Case { image: &[("S", "INIT")], ..comma }.change(), set("INIT,ENV"));
    let with_value = "P = [\"/d\", { value = \"/a\", action = \"prepend\" }]";
    let case = Case { env: with_value, ..Case::default() };
    assert_eq!(case.change(), set("/a:/d"));
    assert_eq!(Case { user, ..case }.change(), set("/a:/host"));
}

#[test]
fn a_bound_is_kept_and_the_users_number_is_not_touched() {
    let env = "OMP_NUM_THREADS = { value = \"4\", at_most = \"{cores}\" }";
    let case = Case { env, ..Case::default() };
    let cores = |cores| RankValues { cores, ..RankValues::default() };
    assert_eq!(case.run(&cores(Some(16))).0, set("4"));
    assert_eq!(case.run(&cores(Some(2))).0, set("2"));
    assert_eq!(case.run(&cores(None)).0, Change::LeftOut("`{cores}` is not known here".into()));
    assert_eq!(Case { user: &[("OMP_NUM_THREADS", "9")], ..case }.run(&cores(Some(2))).0, his("9"));
}

#[test]
fn a_launcher_gets_nothing_that_differs_from_rank_to_rank() {
    let case = Case { env: "UCX_NET_DEVICES = \"{near_nics}\"", ..Case::default() };
    let rank = RankValues { near_nics: Some("mlx5_0".into()), ..RankValues::default() };
    assert_eq!(case.run(&rank).0, set("mlx5_0"));
    let launcher = RankValues { launcher: true, ..rank };
    let reason = "`{near_nics}` differs from rank to rank, and a launcher's ranks share its environment";
    assert_eq!(case.run(&launcher).0, Change::LeftOut(reason.into()));
    let cores = Case { env: "N = \"{cores}/{threads}\"", ..Case::default() };
    let launcher = RankValues { cores: Some(14), threads: Some(28), launcher: true, ..RankValues::default() };
    assert_eq!(cores.run(&launcher).0, set("14/28"));
}

#[test]
fn the_gid_index_is_set_or_left_with_the_reason() {
    let resolved = resolved("NCCL_IB_GID_INDEX = \"{rocev2_gid_index}\"", true);
    assert!(needs_gid_index(&resolved));
    let with = |index| {
        let values = StepValues { rocev2_gid_index: Some(index), ..StepValues::default() };
        decide(&resolved, |_| None, &NcclConf::default(), &values).remove(0)
    };
    assert_eq!(with(Ok(5)).for_rank(&RankValues::default(), None), set("5"));
    let left = with(Err("mlx5_0 has it at 3, mlx5_1 at 5".into()));
    assert_eq!(left.for_rank(&RankValues::default(), None), Change::Nothing);
    assert_eq!(left.reason, "mlx5_0 has it at 3, mlx5_1 at 5");
}

#[test]
fn what_keeps_frameworks_from_binding_is_set_only_in_a_bound_task() {
    let case = Case { env: "I_MPI_PIN = \"0\"", builtin: true, ..Case::default() };
    let unbound = RankValues { unbound: true, ..RankValues::default() };
    assert_eq!(case.change(), set("0"));
    assert_eq!(case.run(&unbound).0, Change::Nothing);
    assert_eq!(Case { user: &[("I_MPI_PIN", "1")], ..case }.run(&unbound).0, his("1"));
}

#[test]
fn what_a_container_brings_loses_against_a_profile_and_both_against_the_user() {
    let cores = RankValues { cores: Some(16), ..RankValues::default() };
    for (env, name, image, user, tuned) in [
        // An enroot hook for PyTorch images puts OMP_NUM_THREADS=1 into the container.
        ("OMP_NUM_THREADS = { value = \"4\", at_most = \"{cores}\" }", "OMP_NUM_THREADS", "1", "8", "4"),
        ("NCCL_IB_PCI_RELAXED_ORDERING = \"1\"", "NCCL_IB_PCI_RELAXED_ORDERING", "0", "2", "1"),
        ("NCCL_DEBUG = \"WARN\"", "NCCL_DEBUG", "TRACE", "INFO", "WARN"),
    ] {
        let image: &[(&str, &str)] = &[(name, image)];
        let case = Case { env, builtin: true, container: true, image, ..Case::default() };
        assert_eq!(case.run(&cores).0, set(tuned), "{name}");
        assert_eq!(Case { user: &[(name, user)], ..case }.run(&cores).0, his(user), "{name}");
    }
}

#[test]
fn on_a_machine_that_nobody_knows_threads_are_counted_by_cpus() {
    let task = crate::plan::TaskPlan::default();
    let values = RankValues::of(&crate::Machine::default(), &"0-2".parse().unwrap(), &task);
    assert_eq!((values.cores, values.threads, values.unbound), (Some(3), Some(3), true));
}
