//! What a test's Slurm is like, and its configuration files.

use super::place::{self, Place};
use std::path::{Path, PathBuf};

/// The wishes of a test.
#[derive(Clone)]
pub struct Setup {
    /// Nodes, each a slurmd on this host.
    pub nodes: usize,
    /// GPUs of each node.
    pub gpus: u32,
    /// Cores that a node claims; `None`: what the host has.
    pub cores: Option<u32>,
    /// The node is this machine as it is: its sockets and hardware threads, GPUs found by discovery, half of them on
    /// each socket.
    pub this_machine: bool,
    /// `TaskPlugin`.
    pub task_plugin: String,
    /// `ConstrainCores`, `ConstrainDevices`.
    pub constrain: (bool, bool),
    /// The plugin's path, if it is not the place's own copy.
    pub plugin: Option<PathBuf>,
    /// Words behind the plugin in plugstack.conf; `None`: no plugin at all.
    pub words: Option<String>,
    /// Name the described machine with `topology=`.
    pub described: bool,
    /// What the stand-in NVML tells (tests/fake-nvml), where discovery is to run.
    pub nvml: Option<String>,
    /// Jobs may share CPUs (GPUs never).
    pub oversubscribe: bool,
    /// Environment of slurmctld and slurmd.
    pub daemon_env: Vec<(String, String)>,
    /// What slurmctld and slurmd are started through.
    pub daemon_prefix: Vec<String>,
    /// Lines added to slurm.conf.
    pub more: String,
    /// Lines added to plugstack.conf before and after ours.
    pub other_plugins: (String, String),
    /// A program of the place that starts slurmd.
    pub slurmd_under: Option<&'static str>,
    /// A shell script in the place of slurmstepd.
    pub slurmstepd: Option<String>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            nodes: 1,
            gpus: 2,
            cores: None,
            this_machine: false,
            task_plugin: "task/affinity".to_owned(),
            constrain: (false, false),
            plugin: None,
            words: Some(String::new()),
            described: true,
            nvml: None,
            oversubscribe: false,
            daemon_env: Vec::new(),
            daemon_prefix: Vec::new(),
            more: String::new(),
            other_plugins: Default::default(),
            slurmd_under: None,
            slurmstepd: None,
        }
    }
}

impl Setup {
    /// A node that is this machine, not one that a test describes.
    pub fn this_machine() -> Self {
        Self { this_machine: true, described: false, ..Self::default() }
    }

    /// Starts the daemons through another program.
    pub fn daemon_prefix(mut self, words: &[&str]) -> Self {
        self.daemon_prefix = words.iter().map(ToString::to_string).collect();
        self
    }

    /// A plugin that is installed elsewhere.
    pub fn plugin(mut self, path: PathBuf) -> Self {
        self.plugin = Some(path);
        self
    }

    /// Adds words behind the plugin.
    pub fn words(mut self, words: &str) -> Self {
        self.words = Some(words.to_owned());
        self
    }

    /// A Slurm without gpu-tune.
    pub fn without_plugin(mut self) -> Self {
        self.words = None;
        self
    }

    /// That many GPUs on each node.
    pub fn gpus(mut self, gpus: u32) -> Self {
        self.gpus = gpus;
        self
    }

    /// That many nodes.
    pub fn nodes(mut self, nodes: usize) -> Self {
        self.nodes = nodes;
        self
    }

    /// Another task plugin.
    pub fn task_plugin(mut self, plugin: &str) -> Self {
        self.task_plugin = plugin.to_owned();
        self
    }

    /// Real cpusets and device cgroups.
    pub fn constrained(mut self) -> Self {
        self.task_plugin = "task/cgroup,task/affinity".to_owned();
        self.constrain = (true, true);
        self
    }

    /// No description: discovery runs, with the stand-in NVML telling this.
    pub fn discovered(mut self, nvml: &str) -> Self {
        self.described = false;
        self.nvml = Some(nvml.to_owned());
        self
    }

    /// Lets jobs share CPUs.
    pub fn oversubscribed(mut self) -> Self {
        self.oversubscribe = true;
        self
    }

    /// A variable of the daemons.
    pub fn daemon_env(mut self, name: &str, value: &str) -> Self {
        self.daemon_env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// More lines in slurm.conf.
    pub fn more(mut self, lines: &str) -> Self {
        self.more = lines.to_owned();
        self
    }

    /// The names of the nodes.
    pub fn node_names(&self) -> Vec<String> {
        (1..=self.nodes).map(|node| format!("n{node}")).collect()
    }
}

/// Writes slurm.conf, gres.conf, cgroup.conf and plugstack.conf, and makes the device nodes.
pub fn write(place: &Place, setup: &Setup) {
    devices(place, setup.gpus);
    place.write("etc/gres.conf", &gres_conf(setup));
    place.write("etc/cgroup.conf", &cgroup_conf(place, setup));
    place.write("etc/plugstack.conf", &plugstack_conf(place, setup));
    place.write("etc/slurm.conf", &slurm_conf(place, setup));
    place.write("etc/hosts", &hosts(place, setup));
}

/// The host's own file, and all nodes on the loopback.
fn hosts(place: &Place, setup: &Setup) -> String {
    let own = place.command("cat").arg("/etc/hosts").output().unwrap();
    format!("{}127.0.0.1 {}\n", String::from_utf8_lossy(&own.stdout), setup.node_names().join(" "))
}

fn gres_conf(setup: &Setup) -> String {
    let line = |first, last, cores: &str| format!("Name=gpu Type=h200 File=/dev/nvidia[{first}-{last}]{cores}\n");
    let (half, last) = (setup.gpus / 2, setup.gpus.saturating_sub(1));
    match setup.gpus {
        0 => String::new(),
        _ if !setup.this_machine => line(0, last, ""),
        _ => {
            let (_, cores, _) = super::machine::shape();
            let on = |socket| format!(" Cores={}-{}", socket * cores, (socket + 1) * cores - 1);
            line(0, half - 1, &on(0)) + &line(half, last, &on(1))
        }
    }
}

/// What a node says of its CPUs. A described node has one socket and single threads.
fn node_shape(setup: &Setup) -> String {
    let (sockets, cores, threads) = match setup.this_machine {
        true => super::machine::shape(),
        false => (1, setup.cores.unwrap_or_else(super::machine::online_cpus), 1),
    };
    let cpus = sockets * cores * threads;
    format!("CPUs={cpus} Boards=1 Sockets={sockets} CoresPerSocket={cores} ThreadsPerCore={threads}")
}

/// Whether this host has the unified hierarchy.
fn cgroup_v2() -> bool {
    Path::new("/sys/fs/cgroup/cgroup.controllers").exists()
}

/// Stand-ins for device nodes that are not there. They stay, and lead nowhere: no driver answers. Where they are
/// matters, because a task finds out what it may open by these names.
fn devices(place: &Place, gpus: u32) {
    for gpu in 0..gpus {
        let path = format!("/dev/nvidia{gpu}");
        let script = format!("test -e {path} || mknod -m 666 {path} c 195 {gpu} || test -e {path}");
        let made = place.command("sh").args(["-c", &script]).status();
        assert!(made.unwrap().success(), "mknod {path}");
    }
}

fn slurm_conf(place: &Place, setup: &Setup) -> String {
    let here = |path: &str| place.inside(path).display().to_string();
    let ports = place::free_ports(u16::try_from(setup.nodes).unwrap() + 1);
    let host = host_name();
    let shape = node_shape(setup);
    let proctrack = if cgroup_v2() && setup.constrain != (false, false) { "cgroup" } else { "linuxproc" };
    let oversubscribe = if setup.oversubscribe { "FORCE:4" } else { "NO" };
    let (first, last) = (ports + 1, ports + u16::try_from(setup.nodes).unwrap());
    let gres = if setup.gpus > 0 { format!("Gres=gpu:h200:{}", setup.gpus) } else { String::new() };
    [
        "ClusterName=check".to_owned(),
        format!("SlurmctldHost={host}(127.0.0.1)"),
        "SlurmUser=root".to_owned(),
        "SlurmdUser=root".to_owned(),
        format!("SlurmctldPort={ports}"),
        format!("StateSaveLocation={}", here("ctld")),
        format!("SlurmdSpoolDir={}", here("spool/%n")),
        format!("SlurmctldPidFile={}", here("slurmctld.pid")),
        format!("SlurmdPidFile={}", here("slurmd-%n.pid")),
        format!("SlurmctldLogFile={}", here("slurmctld.log")),
        format!("SlurmdLogFile={}", here("slurmd-%n.log")),
        "SlurmdDebug=verbose".to_owned(),
        format!("ProctrackType=proctrack/{proctrack}"),
        format!("MessageTimeout={}", place::patience(10).as_secs()),
        format!("TaskPlugin={}", setup.task_plugin),
        "MpiDefault=none".to_owned(),
        "ReturnToService=2".to_owned(),
        "SelectType=select/cons_tres".to_owned(),
        "SelectTypeParameters=CR_Core".to_owned(),
        "GresTypes=gpu".to_owned(),
        format!("PlugStackConfig={}", here("etc/plugstack.conf")),
        "SlurmdParameters=config_overrides".to_owned(),
        "JobAcctGatherType=jobacct_gather/none".to_owned(),
        // Jobs of two clusters on one host must not meet in a cgroup.
        format!("FirstJobId={}", u32::from(ports) * 10),
        format!(
            "NodeName=n[1-{}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{last}] {shape} \
             RealMemory=2000 {gres}",
            setup.nodes
        ),
        format!("PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe={oversubscribe}"),
        setup.more.clone(),
        String::new(),
    ]
    .join("\n")
}

/// 22.05 cannot do without cgroups and finds only v1 here; newer releases may.
fn cgroup_conf(place: &Place, setup: &Setup) -> String {
    if setup.constrain == (false, false) && release(place) >= (23, 11) {
        return "CgroupPlugin=disabled\n".to_owned();
    }
    let version = if cgroup_v2() { "v2\nIgnoreSystemd=yes\nEnableControllers=yes" } else { "v1" };
    let automount = if !cgroup_v2() && release(place) < (24, 5) { "CgroupAutomount=no\n" } else { "" };
    let word = |yes: bool| if yes { "yes" } else { "no" };
    let (cores, devices) = setup.constrain;
    format!(
        "CgroupPlugin=cgroup/{version}\n{automount}ConstrainCores={}\nConstrainDevices={}\n",
        word(cores),
        word(devices)
    )
}

/// The text of plugstack.conf.
pub fn plugstack_conf(place: &Place, setup: &Setup) -> String {
    let (before, after) = &setup.other_plugins;
    let Some(words) = &setup.words else { return format!("{before}\n{after}\n") };
    let here = |path: &str| place.inside(path).display().to_string();
    let plugin = setup.plugin.as_ref().map_or_else(|| here("lib/gpu_tune.so"), |path| path.display().to_string());
    let mut line = format!("optional {plugin} {words}");
    let defaults = [
        ("state", "state"),
        ("command", "bin/gpu-tune"),
        ("profile_dir", "etc/profiles.d"),
        ("shim", "lib/libgpu_tune_preload.so"),
        ("topology", "etc/node.snapshot"),
        ("nvml", "lib/libnvidia-ml.so.1"),
    ];
    for (word, path) in defaults {
        let wanted = match word {
            "topology" => setup.described,
            "nvml" => setup.nvml.is_some(),
            _ => true,
        };
        if wanted && !words.contains(&format!("{word}=")) {
            line.push_str(&format!(" {word}={}", here(path)));
        }
    }
    if let Some(nvml) = &setup.nvml {
        place.write("lib/libnvidia-ml.so.1.json", nvml);
    }
    if setup.described {
        place.write("etc/node.snapshot", &super::machine::text(&super::machine::described(setup.gpus)));
    }
    format!("{before}\n{line}\n{after}\n")
}

/// (22, 5) for Slurm 22.05.
pub fn release(place: &Place) -> (u32, u32) {
    let said = place.command("slurmd").arg("-V").output().unwrap();
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    let mut numbers = text.split_whitespace().nth(1).unwrap().split('.').map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap(), numbers.next().unwrap())
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    name.trim().split('.').next().unwrap().to_owned()
}
