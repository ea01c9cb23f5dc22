//! How the processes of a step find each other: the variables that PyTorch reads for that.
//!
//! A launcher gets torchrun's own variables, `PET_…` (each is the default of one flag), and never `RANK` and the like, which
//! it gives its workers itself. A rank gets what `init_process_group` reads. Nothing that the user set is touched, and
//! nothing is set where a job that runs today could wait for nodes that never come.
#![forbid(unsafe_code)]

use super::command::Command;
use super::hostlist;
use crate::spec::Rendezvous;
use crate::text::shown;
use crate::{Code, Notice};

/// The step of a batch script (slurm.h: `SLURM_BATCH_SCRIPT`).
pub const BATCH_STEP: u32 = 0xffff_fffb;
/// The step of salloc's shell (slurm.h: `SLURM_INTERACTIVE_STEP`).
pub const INTERACTIVE_STEP: u32 = 0xffff_fffa;

/// Ports from here on lie above those that Linux gives out by itself (32768 to 60999).
const FIRST_PORT: u64 = 61_000;
const PORTS: u64 = 65_536 - FIRST_PORT;

/// A step and one task's place in it, as Slurm tells them.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The job's number.
    pub job: u32,
    /// The step's number.
    pub step: u32,
    /// The step's nodes, a list as Slurm prints it.
    pub hosts: &'a str,
    /// How many nodes the step has.
    pub nodes: u32,
    /// This node's number within the step.
    pub node: u32,
    /// How many tasks the step has.
    pub tasks: u32,
    /// How many of them run on this node.
    pub tasks_here: u32,
    /// This task's number within the step.
    pub task: u32,
    /// This task's number on this node.
    pub local_task: u32,
}

/// The GPUs of a launcher.
#[derive(Debug, Clone, Copy)]
pub struct Gpus {
    /// How many the task sees.
    pub here: u32,
    /// Whether every node of the step has the same number, as far as anybody can tell.
    pub even: bool,
}

/// What is set, and what a person should hear.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    /// Names and values.
    pub set: Vec<(&'static str, String)>,
    /// Why nothing is set, if that is worth telling.
    pub notices: Vec<Notice>,
}

/// Variables by which a user of torchrun says himself which nodes take part, or how they meet.
const OWN_TOPOLOGY: [&str; 4] = ["PET_NNODES", "PET_STANDALONE", "PET_RDZV_BACKEND", "PET_RDZV_ENDPOINT"];

/// The variables for a launcher; `user` tells whether the user set a variable.
pub fn for_launcher(
    choice: Rendezvous,
    command: Command,
    gpus: Gpus,
    place: &Place<'_>,
    user: impl Fn(&str) -> bool,
) -> Decision {
    if !wanted(choice, command, &user) {
        return Decision::default();
    }
    if place.tasks_here != 1 || place.tasks != place.nodes {
        return match choice {
            Rendezvous::On => refused("several launchers run on a node", "start one per node: `--ntasks-per-node=1`"),
            Rendezvous::Auto | Rendezvous::Off => Decision::default(),
        };
    }
    if !gpus.even {
        return refused(
            "the nodes have different numbers of GPUs, which torchrun cannot use together",
            "ask for the same number on each: `--gpus-per-node`",
        );
    }
    let Some(host) = hostlist::first(place.hosts) else { return unknown_host(place.hosts) };
    let mut set = vec![("PET_NNODES", place.nodes.to_string())];
    if gpus.here > 0 {
        set.push(("PET_NPROC_PER_NODE", gpus.here.to_string()));
    }
    set.extend([
        ("PET_NODE_RANK", place.node.to_string()),
        ("PET_MASTER_ADDR", host),
        ("PET_MASTER_PORT", port(place).to_string()),
        ("PET_RDZV_ID", id(place)),
    ]);
    unless_users(set, user)
}

/// Whether a launcher is to be told where its peers are.
fn wanted(choice: Rendezvous, command: Command, user: &impl Fn(&str) -> bool) -> bool {
    let wanted = match (choice, command) {
        (Rendezvous::Off, _) | (_, Command::Torchrun { own_topology: true }) => false,
        (Rendezvous::Auto, command) => matches!(command, Command::Torchrun { .. }),
        (Rendezvous::On, _) => true,
    };
    wanted && !OWN_TOPOLOGY.iter().any(|name| user(name))
}

/// A launcher's place among the machines of a job that Slurm does not run, as Kubernetes' PyTorchJob tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peers<'a> {
    /// How many machines (`WORLD_SIZE` there).
    pub nodes: u32,
    /// This machine's number (`RANK` there).
    pub node: u32,
    /// Where the first one is reached.
    pub host: &'a str,
    /// Where it listens.
    pub port: Option<u16>,
}

/// The variables for a launcher outside Slurm with so many GPUs; `peers` is `None` for a machine alone.
pub fn for_launcher_among(
    choice: Rendezvous,
    command: Command,
    gpus: u32,
    peers: Option<Peers<'_>>,
    user: impl Fn(&str) -> bool,
) -> Decision {
    if !wanted(choice, command, &user) {
        return Decision::default();
    }
    let mut set = Vec::new();
    if gpus > 0 {
        set.push(("PET_NPROC_PER_NODE", gpus.to_string()));
    }
    if let Some(peers) = peers {
        set.extend([
            ("PET_NNODES", peers.nodes.to_string()),
            ("PET_NODE_RANK", peers.node.to_string()),
            ("PET_MASTER_ADDR", peers.host.to_owned()),
        ]);
        set.extend(peers.port.map(|port| ("PET_MASTER_PORT", port.to_string())));
    }
    unless_users(set, user)
}

/// The variables for a task that is a rank; `user` tells whether the user set a variable.
pub fn for_rank(choice: Rendezvous, place: &Place<'_>, user: impl Fn(&str) -> bool) -> Decision {
    if choice == Rendezvous::Off {
        return Decision::default();
    }
    let Some(host) = hostlist::first(place.hosts) else { return unknown_host(place.hosts) };
    let set = vec![
        ("RANK", place.task.to_string()),
        ("WORLD_SIZE", place.tasks.to_string()),
        ("LOCAL_RANK", place.local_task.to_string()),
        ("LOCAL_WORLD_SIZE", place.tasks_here.to_string()),
        ("MASTER_ADDR", host),
        ("MASTER_PORT", port(place).to_string()),
    ];
    unless_users(set, user)
}

fn unless_users(mut set: Vec<(&'static str, String)>, user: impl Fn(&str) -> bool) -> Decision {
    set.retain(|(name, _)| !user(name));
    Decision { set, notices: Vec::new() }
}

fn refused(why: &str, help: &str) -> Decision {
    let notice = Notice::new(Code::Rendezvous, format!("rendezvous is left to you: {why}")).help(help);
    Decision { set: Vec::new(), notices: vec![notice] }
}

fn unknown_host(hosts: &str) -> Decision {
    refused(
        &format!("no host name was found in `{}`", shown(hosts)),
        "set `MASTER_ADDR`, or torchrun's `--master-addr`, yourself",
    )
}

/// Where the first process listens. Steps of a job, and jobs started one after the other, get different ports: they may
/// share a node. 1009 is prime to the number of ports, so only jobs that far apart in number can meet.
fn port(place: &Place<'_>) -> u64 {
    FIRST_PORT + (u64::from(place.job) + 1009 * u64::from(place.step)) % PORTS
}

fn id(place: &Place<'_>) -> String {
    match place.step {
        BATCH_STEP => format!("{}.batch", place.job),
        INTERACTIVE_STEP => format!("{}.interactive", place.job),
        step => format!("{}.{step}", place.job),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const PLAIN: Command = Command::Torchrun { own_topology: false };
    const OWN: Command = Command::Torchrun { own_topology: true };
    const EIGHT: Gpus = Gpus { here: 8, even: true };
    const PLACE: Place<'_> = Place {
        job: 1234,
        step: 0,
        hosts: "n[001-004]",
        nodes: 4,
        node: 2,
        tasks: 4,
        tasks_here: 1,
        task: 2,
        local_task: 0,
    };

    fn nobody(_: &str) -> bool {
        false
    }

    fn names(decision: &Decision) -> Vec<&str> {
        decision.set.iter().map(|(name, _)| *name).collect()
    }

    fn shown(decision: &Decision) -> String {
        decision.set.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn torchrun_alone_on_its_node_gets_exactly_six_variables() {
        let decision = for_launcher(Rendezvous::Auto, PLAIN, EIGHT, &PLACE, nobody);
        assert_eq!(
            shown(&decision),
            "PET_NNODES=4 PET_NPROC_PER_NODE=8 PET_NODE_RANK=2 PET_MASTER_ADDR=n001 PET_MASTER_PORT=62234 PET_RDZV_ID=1234.0"
        );
        assert!(decision.notices.is_empty());
    }

    #[test]
    fn a_single_node_gets_them_too_because_its_default_port_may_be_taken() {
        let place = Place { hosts: "n7", nodes: 1, node: 0, tasks: 1, task: 0, ..PLACE };
        let decision = for_launcher(Rendezvous::Auto, PLAIN, EIGHT, &place, nobody);
        assert!(shown(&decision).starts_with("PET_NNODES=1 PET_NPROC_PER_NODE=8 PET_NODE_RANK=0 PET_MASTER_ADDR=n7"));
    }

    #[test]
    fn no_variable_is_ever_empty() {
        let decision = for_launcher(Rendezvous::Auto, PLAIN, Gpus { here: 0, even: true }, &PLACE, nobody);
        assert!(!names(&decision).contains(&"PET_NPROC_PER_NODE"));
        assert!(decision.set.iter().all(|(_, value)| !value.is_empty()));
    }

    #[test]
    fn the_users_own_topology_wins_whole() {
        for choice in [Rendezvous::Auto, Rendezvous::On] {
            assert_eq!(for_launcher(choice, OWN, EIGHT, &PLACE, nobody), Decision::default());
            for name in OWN_TOPOLOGY {
                let decision = for_launcher(choice, PLAIN, EIGHT, &PLACE, |asked| asked == name);
                assert_eq!(decision, Decision::default(), "{name}");
            }
        }
    }

    #[test]
    fn each_other_variable_of_the_users_wins_by_itself() {
        let decision = for_launcher(Rendezvous::Auto, PLAIN, EIGHT, &PLACE, |name| name == "PET_NPROC_PER_NODE");
        let expect = ["PET_NNODES", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_RDZV_ID"];
        assert_eq!(names(&decision), expect);
    }

    #[test]
    fn other_commands_get_them_only_when_asked_for() {
        for command in [Command::Launcher, Command::Other] {
            assert_eq!(for_launcher(Rendezvous::Auto, command, EIGHT, &PLACE, nobody), Decision::default());
            assert_eq!(for_launcher(Rendezvous::On, command, EIGHT, &PLACE, nobody).set.len(), 6);
        }
        assert_eq!(for_launcher(Rendezvous::Off, PLAIN, EIGHT, &PLACE, nobody), Decision::default());
    }

    #[test]
    fn several_launchers_on_a_node_get_nothing() {
        for place in [Place { tasks_here: 2, tasks: 8, ..PLACE }, Place { tasks: 5, ..PLACE }] {
            assert_eq!(for_launcher(Rendezvous::Auto, PLAIN, EIGHT, &place, nobody), Decision::default());
            let asked = for_launcher(Rendezvous::On, PLAIN, EIGHT, &place, nobody);
            assert!(asked.set.is_empty());
            assert_eq!(asked.notices[0].message, "rendezvous is left to you: several launchers run on a node");
        }
    }

    #[test]
    fn uneven_gpus_are_told_and_nothing_is_set() {
        let decision = for_launcher(Rendezvous::Auto, PLAIN, Gpus { here: 8, even: false }, &PLACE, nobody);
        assert!(decision.set.is_empty());
        assert!(decision.notices[0].message.contains("different numbers of GPUs"));
        assert_eq!(decision.notices[0].code, Code::Rendezvous);
    }

    #[test]
    fn a_node_list_that_is_none_is_told_and_nothing_is_set() {
        let place = Place { hosts: "(null)", ..PLACE };
        for decision in
            [for_launcher(Rendezvous::Auto, PLAIN, EIGHT, &place, nobody), for_rank(Rendezvous::Auto, &place, nobody)]
        {
            assert!(decision.set.is_empty());
            assert!(decision.notices[0].message.contains("`(null)`"));
        }
    }

    #[test]
    fn a_rank_gets_what_init_process_group_reads() {
        let place = Place { tasks: 32, tasks_here: 8, task: 19, local_task: 3, ..PLACE };
        let decision = for_rank(Rendezvous::Auto, &place, nobody);
        assert_eq!(
            shown(&decision),
            "RANK=19 WORLD_SIZE=32 LOCAL_RANK=3 LOCAL_WORLD_SIZE=8 MASTER_ADDR=n001 MASTER_PORT=62234"
        );
        let decision = for_rank(Rendezvous::On, &place, |name| name.starts_with("MASTER"));
        assert_eq!(names(&decision), ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"]);
        assert_eq!(for_rank(Rendezvous::Off, &place, nobody), Decision::default());
    }

    #[test]
    fn a_launcher_outside_slurm_is_told_what_its_surroundings_tell() {
        let alone = for_launcher_among(Rendezvous::Auto, PLAIN, 8, None, nobody);
        assert_eq!(shown(&alone), "PET_NPROC_PER_NODE=8");
        let peers = Some(Peers { nodes: 4, node: 1, host: "job-master-0", port: Some(23456) });
        let pod = for_launcher_among(Rendezvous::Auto, PLAIN, 8, peers, nobody);
        assert_eq!(
            shown(&pod),
            "PET_NPROC_PER_NODE=8 PET_NNODES=4 PET_NODE_RANK=1 PET_MASTER_ADDR=job-master-0 PET_MASTER_PORT=23456"
        );
        let set_by_the_operator = for_launcher_among(Rendezvous::Auto, PLAIN, 8, peers, |name| name == "PET_NNODES");
        assert_eq!(set_by_the_operator, Decision::default());
        assert_eq!(for_launcher_among(Rendezvous::Auto, Command::Other, 8, peers, nobody), Decision::default());
        assert_eq!(for_launcher_among(Rendezvous::On, OWN, 8, peers, nobody), Decision::default());
    }

    #[test]
    fn jobs_and_steps_that_run_at_once_get_different_ports() {
        let mut ports = BTreeSet::new();
        for job in 70_000..71_000 {
            for step in 0..4 {
                let port = port(&Place { job, step, ..PLACE });
                assert!((61_000..=65_535).contains(&port), "{port}");
                assert!(ports.insert(port), "job {job} step {step} meets another");
            }
        }
        port(&Place { job: u32::MAX, step: u32::MAX, ..PLACE });
    }

    #[test]
    fn a_batch_step_has_a_name_for_a_number() {
        assert_eq!(id(&Place { step: BATCH_STEP, ..PLACE }), "1234.batch");
        assert_eq!(id(&Place { step: 7, ..PLACE }), "1234.7");
    }
}
