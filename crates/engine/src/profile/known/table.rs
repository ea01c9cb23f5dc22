//! The table itself, sorted by name. Facts: NCCL's manual ("Environment Variables") and source from 2.18 to 2.30, CUDA's
//! programming guide, PyTorch 2.1 to 2.15, the frameworks' own manuals.

use super::Class::{Debug, Process, System, Workload};
use super::Takes::{Int, Ints, Text, Word, Words};
use super::Trait::{AgainstRebinding, Dangerous, List, Network, Pins, Uniform};
use super::{Class, Known, Takes, Trait};

const BOOL: Takes = Int(0, 1);
const BYTES: Takes = Int(0, i64::MAX);
const ANY: &[Trait] = &[];
const NET: &[Trait] = &[Network];
const SAME: &[Trait] = &[Uniform];
const FAMILY: Takes = Word(&["AF_INET", "AF_INET6"]);
/// GPU–NIC distances that NCCL's code takes, and their old numbers.
const LEVEL: Takes =
    Word(&["LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS", "0", "1", "2", "3", "4", "5"]);
const LOG: Takes = Word(&["VERSION", "WARN", "INFO", "ABORT", "TRACE"]);
const SUBSYS: Takes = Words(&[
    "INIT",
    "COLL",
    "P2P",
    "SHM",
    "NET",
    "GRAPH",
    "TUNING",
    "ENV",
    "ALLOC",
    "CALL",
    "PROXY",
    "NVLS",
    "BOOTSTRAP",
    "REG",
    "PROFILE",
    "RAS",
    "ALL",
]);

const fn row(name: &'static str, takes: Takes, class: Class, traits: &'static [Trait], about: &'static str) -> Known {
    Known { name, takes, class, traits, since: "", until: "", about }
}

impl Known {
    const fn since(mut self, release: &'static str) -> Self {
        self.since = release;
        self
    }

    const fn until(mut self, release: &'static str) -> Self {
        self.until = release;
        self
    }
}

/// Two variables that do not go together, and why.
pub const CLASHES: &[(&str, &str, &str)] = &[
    ("MKL_NUM_THREADS", "OMP_NUM_THREADS", "PyTorch follows MKL_NUM_THREADS, also for a user who sets only the other"),
    ("NCCL_IB_ADDR_FAMILY", "NCCL_IB_GID_INDEX", "a fixed index turns the selection by address off"),
    ("NCCL_IB_ADDR_RANGE", "NCCL_IB_GID_INDEX", "a fixed index turns the selection by address off"),
    ("NCCL_IB_GID_INDEX", "NCCL_IB_ROCE_VERSION_NUM", "a fixed index turns the selection by RoCE version off"),
    ("NCCL_MAX_CTAS", "NCCL_MAX_NCHANNELS", "the second is the old name of the first"),
    ("NCCL_MIN_CTAS", "NCCL_MIN_NCHANNELS", "the second is the old name of the first"),
    ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PyTorch reads only one of them"),
];

/// Every variable.
pub const KNOWN: &[Known] = &[
    row("ACCELERATE_CPU_AFFINITY", BOOL, Workload, &[Pins], "accelerate binds each rank to its GPU's NUMA node itself"),
    row(
        "CUDA_DEVICE_MAX_CONNECTIONS",
        Int(1, 32),
        Workload,
        ANY,
        "hardware queues per GPU (8): 1 for Megatron TP up to Hopper, never with FSDP, 32 on Blackwell",
    ),
    row(
        "CUDA_DEVICE_ORDER",
        Word(&["FASTEST_FIRST", "PCI_BUS_ID"]),
        System,
        ANY,
        "how CUDA numbers GPUs; PCI_BUS_ID counts as nvidia-smi and Slurm do",
    ),
    row("CUDA_LAUNCH_BLOCKING", BOOL, Debug, ANY, "every kernel launch waits for its end: for finding faults only"),
    row(
        "CUDA_MODULE_LOADING",
        Word(&["LAZY", "EAGER", "DEFAULT"]),
        Workload,
        ANY,
        "when kernels are loaded; LAZY is the default since CUDA 12.2",
    ),
    row("GLOO_SOCKET_IFNAME", Text, System, NET, "interface for gloo, one plain name: no `=` and no `^` as NCCL takes"),
    row(
        "GOMP_CPU_AFFINITY",
        Text,
        Process,
        &[Pins],
        "GNU OpenMP pins the main thread to one CPU at start; its children inherit that",
    ),
    row("HYDRA_BIND", Text, Process, &[Pins], "MPICH's launcher pins ranks by its own count"),
    row(
        "I_MPI_PIN",
        Word(&["0", "off", "no", "disable", "1", "on", "yes", "enable"]),
        Process,
        &[AgainstRebinding],
        "whether Intel MPI pins processes itself; its default is on",
    ),
    row(
        "KMP_AFFINITY",
        Text,
        Process,
        &[Pins],
        "Intel OpenMP pins threads; DeepSpeed refuses to start beside its own binding",
    ),
    row("LD_LIBRARY_PATH", Text, Process, &[List], "where programs look for libraries first"),
    row(
        "LD_PRELOAD",
        Text,
        Process,
        &[List],
        "libraries that every program loads first; a missing file makes every program complain",
    ),
    row(
        "MKL_NUM_THREADS",
        Int(1, 4096),
        Workload,
        ANY,
        "threads of MKL; follows OMP_NUM_THREADS unless set, and PyTorch then follows it",
    ),
    row(
        "MV2_ENABLE_AFFINITY",
        BOOL,
        Process,
        &[AgainstRebinding],
        "whether MVAPICH2 pins ranks itself in MPI_Init; its default is 1",
    ),
    row(
        "NCCL_ALGO",
        Text,
        Debug,
        &[Uniform, Dangerous],
        "forces algorithms; from 2.24 on an impossible choice fails, `Tree` breaks deterministic training",
    ),
    row(
        "NCCL_BUFFSIZE",
        Int(1, 1 << 40),
        Debug,
        SAME,
        "bytes of buffer per connection (4194304); larger costs GPU memory in every communicator",
    ),
    row("NCCL_CHECK_POINTERS", BOOL, Debug, ANY, "checks the pointers of every collective"),
    row(
        "NCCL_COLLNET_ENABLE",
        BOOL,
        System,
        &[Network, Uniform],
        "in-network reductions (SHARP), where the fabric offers them",
    ),
    row("NCCL_COMM_BLOCKING", BOOL, Workload, SAME, "whether communicator calls wait; the application decides"),
    row("NCCL_CONF_FILE", Text, System, ANY, "another file in place of ~/.nccl.conf").since("NCCL 2.23"),
    row(
        "NCCL_CROSS_NIC",
        Int(0, 2),
        System,
        &[Network, Uniform],
        "may a ring change adapters between nodes: 0 no, 1 yes, 2 where faster (default); 1 crosses the rails of a rail fabric",
    ),
    row(
        "NCCL_CUMEM_ENABLE",
        Int(-2, 1),
        Debug,
        SAME,
        "memory by the cuMem calls (-2: automatic); 0 turns multi-node NVLink off",
    ),
    row("NCCL_CUMEM_HOST_ENABLE", Int(-1, 1), Debug, SAME, "host memory by the cuMem calls").since("NCCL 2.23"),
    row("NCCL_DEBUG", LOG, System, ANY, "how much NCCL tells; INFO is hundreds of lines per rank and communicator"),
    row("NCCL_DEBUG_FILE", Text, System, ANY, "where it tells it; %h is the host, %p the process"),
    row("NCCL_DEBUG_SUBSYS", SUBSYS, System, ANY, "which parts tell; NCCL's own default fits"),
    row("NCCL_DMABUF_ENABLE", BOOL, Debug, ANY, "GPUDirect RDMA by dma-buf where the kernel has it (1)"),
    row("NCCL_GRAPH_DUMP_FILE", Text, Debug, ANY, "writes the communication graph that was found to a file"),
    row("NCCL_GRAPH_FILE", Text, Debug, SAME, "takes the communication graph from a file"),
    row("NCCL_GRAPH_MIXING_SUPPORT", BOOL, Debug, SAME, "CUDA graphs and plain launches on one communicator"),
    row(
        "NCCL_GRAPH_REGISTER",
        BOOL,
        Debug,
        SAME,
        "registers the buffers of CUDA graphs (1 since 2.20); not with expandable segments",
    ),
    row("NCCL_HOSTID", Text, System, NET, "what tells hosts apart, where host names do not"),
    row("NCCL_IB_ADAPTIVE_ROUTING", BOOL, Debug, NET, "adaptive routing: by default on for InfiniBand, off for RoCE"),
    row("NCCL_IB_ADDR_FAMILY", FAMILY, System, NET, "address family of the RoCE address that NCCL picks")
        .since("NCCL 2.21"),
    row("NCCL_IB_ADDR_RANGE", Text, System, NET, "range of the RoCE address that NCCL picks, such as 10.1.0.0/16")
        .since("NCCL 2.21"),
    row("NCCL_IB_CUDA_SUPPORT", BOOL, Debug, NET, "old switch of GPUDirect RDMA").until("NCCL 2.3"),
    row("NCCL_IB_DISABLE", BOOL, Debug, NET, "1: no RDMA; 0 is the default and forces nothing"),
    row("NCCL_IB_ECE_ENABLE", BOOL, Debug, NET, "enhanced connection establishment (1); 0 helps with mixed firmware"),
    row("NCCL_IB_FIFO_TC", Int(0, 255), System, NET, "traffic class of the small control writes").since("NCCL 2.22.3"),
    row(
        "NCCL_IB_GID_INDEX",
        Int(-1, 511),
        System,
        NET,
        "place of the RoCE address in the adapter's table, of each node its own; -1: NCCL looks (default since 2.21)",
    ),
    row(
        "NCCL_IB_HCA",
        Text,
        System,
        NET,
        "which RDMA adapters: names are prefixes, so write `=` in front; `^` excludes",
    ),
    row("NCCL_IB_MERGE_NICS", BOOL, Debug, NET, "two ports of an adapter count as one (1)"),
    row("NCCL_IB_MERGE_VFS", BOOL, Debug, NET, "virtual functions of one adapter count as one (1)"),
    row(
        "NCCL_IB_PCI_RELAXED_ORDERING",
        Int(0, 2),
        Debug,
        NET,
        "relaxed ordering of PCI writes: 2 automatic (right on bare metal), 1 forced (virtual machines)",
    ),
    row(
        "NCCL_IB_QPS_PER_CONNECTION",
        Int(1, 128),
        Debug,
        NET,
        "queue pairs per connection: more entropy for ECMP hashing on RoCE, useless on InfiniBand",
    ),
    row("NCCL_IB_RETRY_CNT", Int(0, 7), System, NET, "retries of a lost packet; 7 is default and maximum"),
    row("NCCL_IB_RETURN_ASYNC_EVENTS", BOOL, Debug, NET, "link events end the communicator (1)").since("NCCL 2.23"),
    row("NCCL_IB_ROCE_VERSION_NUM", Int(1, 2), System, NET, "RoCE version of the address that NCCL picks (2)")
        .since("NCCL 2.21"),
    row(
        "NCCL_IB_SL",
        Int(0, 15),
        System,
        NET,
        "InfiniBand: service level, as the subnet manager maps it; RoCE: 802.1p priority; there is no universal value",
    ),
    row("NCCL_IB_SPLIT_DATA_ON_QPS", BOOL, Debug, NET, "each message over all queue pairs (1 up to 2.19, 0 since)"),
    row("NCCL_IB_SUBNET_AWARE_ROUTING", BOOL, System, NET, "prefers adapters of one subnet"),
    row(
        "NCCL_IB_TC",
        Int(0, 255),
        System,
        NET,
        "traffic class of RoCE packets (DSCP × 4 + ECN): must be the switches' lossless class; nothing on InfiniBand",
    ),
    row(
        "NCCL_IB_TIMEOUT",
        Int(0, 31),
        System,
        NET,
        "4.096 µs × 2^n until a packet counts as lost (20 since 2.23): higher finds dead peers later",
    ),
    row("NCCL_IB_USE_INLINE", BOOL, Debug, NET, "small control writes inline"),
    row(
        "NCCL_IGNORE_CPU_AFFINITY",
        BOOL,
        System,
        ANY,
        "1: NCCL's threads take all CPUs of the GPU's node instead of the rank's: undoes exclusive cores",
    ),
    row("NCCL_LAUNCH_MODE", Word(&["PARALLEL", "GROUP"]), Debug, SAME, "how kernels of a group are launched"),
    row("NCCL_LL128_BUFFSIZE", BYTES, Debug, SAME, "bytes of buffer of the LL128 protocol"),
    row("NCCL_LL_BUFFSIZE", BYTES, Debug, SAME, "bytes of buffer of the LL protocol"),
    row(
        "NCCL_MAX_CTAS",
        Int(1, 64),
        Debug,
        SAME,
        "most thread blocks per collective (64; 32 up to 2.24); beats the application's own setting",
    ),
    row("NCCL_MAX_NCHANNELS", Int(1, 64), Debug, SAME, "old name of NCCL_MAX_CTAS").until("NCCL 2.17"),
    row(
        "NCCL_MIN_CTAS",
        Int(1, 64),
        Debug,
        SAME,
        "fewest thread blocks per collective; takes them from the computation",
    ),
    row("NCCL_MIN_NCHANNELS", Int(1, 64), Debug, SAME, "old name of NCCL_MIN_CTAS").until("NCCL 2.17"),
    row(
        "NCCL_MNNVL_ENABLE",
        Int(0, 2),
        Debug,
        SAME,
        "NVLink between nodes: 2 automatic, 1 fails without (a health check), 0 off",
    )
    .since("NCCL 2.21"),
    row("NCCL_NCHANNELS_PER_NET_PEER", Int(1, 64), Debug, &[Network, Uniform], "channels per peer on another node"),
    row("NCCL_NCHANNELS_PER_PEER", Int(1, 64), Debug, SAME, "channels per peer"),
    row(
        "NCCL_NET",
        Text,
        System,
        &[Network, Uniform],
        "the only network to use: IB, Socket or a plugin's name; excludes all others",
    ),
    row("NCCL_NET_DISABLE_INTRA", BOOL, Debug, SAME, "no network traffic within a node"),
    row("NCCL_NET_FORCE_FLUSH", BOOL, Debug, NET, "flushes GPUDirect RDMA writes also where not needed"),
    row("NCCL_NET_GDR_C2C", BOOL, Debug, ANY, "GPUDirect RDMA to an adapter at a Grace CPU: 0 in 2.26, 1 since 2.27")
        .since("NCCL 2.26"),
    row(
        "NCCL_NET_GDR_LEVEL",
        LEVEL,
        Debug,
        NET,
        "how far GPU and adapter may be apart for GPUDirect RDMA, in just this case; SYS is the loosest, not the fastest",
    ),
    row("NCCL_NET_GDR_READ", BOOL, Debug, NET, "GPUDirect RDMA also for sending"),
    row("NCCL_NET_MERGE_LEVEL", LEVEL, Debug, NET, "how far adapters may be apart to count as one").since("NCCL 2.23"),
    row("NCCL_NET_MERGE_POLICY", Word(&["ALL", "RAIL"]), Debug, NET, "which ports count as one adapter")
        .since("NCCL 2.30.5"),
    row(
        "NCCL_NET_PLUGIN",
        Text,
        System,
        NET,
        "network plugin: a library that the container must have; a wrong one means TCP speed",
    ),
    row("NCCL_NET_SHARED_BUFFERS", BOOL, Debug, &[Network, Uniform], "send and receive share their buffers (1)"),
    row("NCCL_NSOCKS_PERTHREAD", Int(1, 64), System, NET, "sockets per helper thread, for TCP"),
    row("NCCL_NTHREADS", Int(64, 1024), Debug, SAME, "CUDA threads per block"),
    row("NCCL_NVB_DISABLE", BOOL, Debug, SAME, "no NVLink by way of another GPU"),
    row(
        "NCCL_NVLS_ENABLE",
        Int(0, 2),
        Debug,
        SAME,
        "NVLink SHARP: 2 automatic; 0 saves GPU memory, as NVIDIA's recipes do, and slows large all-reduces",
    ),
    row("NCCL_OOB_NET_ENABLE", BOOL, System, NET, "start-up traffic over the network plugin").since("NCCL 2.23"),
    row("NCCL_OOB_NET_IFNAME", Text, System, NET, "interfaces for start-up traffic").since("NCCL 2.23"),
    row("NCCL_P2P_DIRECT_DISABLE", BOOL, Debug, ANY, "no direct access to peers' memory within a process"),
    row("NCCL_P2P_DISABLE", BOOL, Debug, ANY, "no peer-to-peer between GPUs: everything through host memory"),
    row("NCCL_P2P_LEVEL", LEVEL, System, ANY, "how far GPUs may be apart for peer-to-peer"),
    row(
        "NCCL_P2P_NET_CHUNKSIZE",
        BYTES,
        Debug,
        SAME,
        "bytes per message of send and receive (131072); at most an eighth of NCCL_BUFFSIZE counts",
    ),
    row("NCCL_P2P_NVL_CHUNKSIZE", BYTES, Debug, SAME, "bytes per message over NVLink"),
    row("NCCL_P2P_PCI_CHUNKSIZE", BYTES, Debug, SAME, "bytes per message over PCI"),
    row("NCCL_P2P_USE_CUDA_MEMCPY", BOOL, Debug, ANY, "peer-to-peer by copy engines"),
    row("NCCL_PROFILER_PLUGIN", Text, System, ANY, "profiler plugin: a library that the container must have")
        .since("NCCL 2.23"),
    row(
        "NCCL_PROTO",
        Text,
        Debug,
        &[Uniform, Dangerous],
        "forces protocols; LL128 where it is not supported corrupts data",
    ),
    row("NCCL_PROXY_CPUSET", Text, System, ANY, "CPUs of the network threads: one list for all ranks of a process")
        .since("NCCL 2.28"),
    row("NCCL_PXN_C2C", BOOL, Debug, ANY, "PXN over the Grace CPU's link: 0 in 2.27, 1 since 2.28").since("NCCL 2.27"),
    row("NCCL_PXN_DISABLE", BOOL, Debug, SAME, "no sending by way of another GPU's adapter"),
    row("NCCL_RAS_ADDR", Text, Debug, ANY, "address of the RAS port").since("NCCL 2.24"),
    row("NCCL_RAS_ENABLE", BOOL, Debug, ANY, "status port on the host's loopback (1)").since("NCCL 2.24"),
    row("NCCL_RUNTIME_CONNECT", BOOL, Debug, SAME, "connections only when they are needed (1)").since("NCCL 2.22"),
    row("NCCL_SET_STACK_SIZE", BOOL, Workload, ANY, "CUDA's stack size fits NCCL's kernels"),
    row("NCCL_SET_THREAD_NAME", BOOL, System, ANY, "names NCCL's threads, so that `top -H` shows them"),
    row("NCCL_SHM_DISABLE", BOOL, Debug, ANY, "no shared memory within a node: the network instead"),
    row("NCCL_SHM_USE_CUDA_MEMCPY", BOOL, Debug, ANY, "shared memory by copy engines"),
    row("NCCL_SOCKET_FAMILY", FAMILY, System, NET, "address family of TCP connections"),
    row(
        "NCCL_SOCKET_IFNAME",
        Text,
        System,
        NET,
        "interfaces for TCP and start-up: prefixes, `=` exact, `^` excluded; a wrong name fails at once",
    ),
    row("NCCL_SOCKET_MAGIC", Text, System, SAME, "number that keeps jobs on shared nodes apart"),
    row("NCCL_SOCKET_NTHREADS", Int(1, 16), System, NET, "helper threads per connection, for TCP"),
    row("NCCL_SOCKET_RETRY_CNT", Int(0, 1_000_000), System, NET, "tries to connect").since("NCCL 2.24"),
    row("NCCL_SOCKET_RETRY_SLEEP_MSEC", Int(0, 1_000_000), System, NET, "pause between two tries").since("NCCL 2.24"),
    row("NCCL_TOPO_DUMP_FILE", Text, Debug, ANY, "writes the topology that was found to a file"),
    row(
        "NCCL_TOPO_FILE",
        Text,
        System,
        NET,
        "topology of virtual machines that hide theirs; on bare metal a wrong one maps adapters wrongly",
    ),
    row("NCCL_TUNER_CONFIG_FILE", Text, System, SAME, "what the tuner plugin reads"),
    row("NCCL_TUNER_PLUGIN", Text, System, SAME, "tuner plugin: a library that the container must have"),
    row("NCCL_WORK_FIFO_BYTES", BYTES, Debug, SAME, "bytes of the queue of work per communicator").since("NCCL 2.22"),
    row(
        "NVTE_BWD_LAYERNORM_SM_MARGIN",
        Int(0, 1024),
        Workload,
        ANY,
        "multiprocessors that Transformer Engine's norms leave to communication",
    ),
    row(
        "NVTE_FWD_LAYERNORM_SM_MARGIN",
        Int(0, 1024),
        Workload,
        ANY,
        "multiprocessors that Transformer Engine's norms leave to communication",
    ),
    row(
        "OMPI_MCA_hwloc_base_binding_policy",
        Text,
        Process,
        &[AgainstRebinding],
        "to what Open MPI 4 binds ranks: `none` leaves them alone",
    ),
    row(
        "OMP_NUM_THREADS",
        Ints(1, 4096),
        Process,
        ANY,
        "OpenMP threads; unset: all CPUs of the mask, and 1 under torchrun",
    ),
    row(
        "OMP_PLACES",
        Text,
        Process,
        &[Pins],
        "OpenMP pins the main thread at start; data loaders and NCCL inherit one CPU",
    ),
    row(
        "OMP_PROC_BIND",
        Text,
        Process,
        &[Pins],
        "OpenMP pins the main thread at start; data loaders and NCCL inherit one CPU",
    ),
    row("OPENBLAS_NUM_THREADS", Int(1, 4096), Workload, ANY, "threads of OpenBLAS; follows OMP_NUM_THREADS unless set"),
    row("PATH", Text, Process, &[List], "where programs are looked for"),
    row("PET_MASTER_ADDR", Text, Process, SAME, "torchrun's rendezvous: see `[launch] rendezvous`"),
    row("PET_MASTER_PORT", Int(1, 65535), Process, SAME, "torchrun's rendezvous: see `[launch] rendezvous`"),
    row("PET_MAX_RESTARTS", Int(0, 1_000_000), Workload, SAME, "how often torchrun starts its workers anew"),
    row("PET_NNODES", Text, Process, SAME, "torchrun's rendezvous: see `[launch] rendezvous`"),
    row("PET_NODE_RANK", Int(0, 1_000_000), Process, ANY, "torchrun's rendezvous: see `[launch] rendezvous`"),
    row("PET_NPROC_PER_NODE", Text, Process, SAME, "torchrun's rendezvous: see `[launch] rendezvous`"),
    row("PET_NUMA_BINDING", Text, Process, ANY, "nothing: torchrun's `--numa-binding` reads no variable"),
    row(
        "PET_RDZV_BACKEND",
        Word(&["static", "c10d", "etcd", "etcd-v2"]),
        Process,
        SAME,
        "torchrun's rendezvous: see `[launch] rendezvous`",
    ),
    row("PET_STANDALONE", BOOL, Process, SAME, "torchrun on one node; with PET_NNODES it waits for ever"),
    row(
        "PRTE_MCA_hwloc_default_binding_policy",
        Text,
        Process,
        &[AgainstRebinding],
        "to what Open MPI 5 binds ranks: `none` leaves them alone",
    ),
    row("PYTHONPATH", Text, Process, &[List], "where Python looks for modules first"),
    row("PYTORCH_ALLOC_CONF", Text, Workload, ANY, "newer name of PYTORCH_CUDA_ALLOC_CONF, which every version reads")
        .since("PyTorch 2.9"),
    row(
        "PYTORCH_CUDA_ALLOC_CONF",
        Text,
        Workload,
        ANY,
        "PyTorch's GPU memory; `expandable_segments:True` fragments less, not with NCCL user buffers",
    ),
    row(
        "TLLM_NUMA_AWARE_WORKER_AFFINITY",
        BOOL,
        Process,
        &[AgainstRebinding],
        "whether TensorRT-LLM binds workers itself; unset, it clears a mask that it finds narrowed",
    ),
    row(
        "TORCH_DISTRIBUTED_DEBUG",
        Word(&["OFF", "INFO", "DETAIL"]),
        Debug,
        SAME,
        "checks of collectives; DETAIL is slow",
    ),
    row(
        "TORCH_NCCL_ASYNC_ERROR_HANDLING",
        Int(0, 3),
        Workload,
        SAME,
        "what happens when a peer dies; 0 waits for ever",
    ),
    row(
        "TORCH_NCCL_AVOID_RECORD_STREAMS",
        BOOL,
        Workload,
        ANY,
        "less memory up to PyTorch 2.7; always so since 2.8; wrong loss with NGC 25.04",
    )
    .until("PyTorch 2.13"),
    row("TORCH_NCCL_BLOCKING_WAIT", BOOL, Debug, ANY, "collectives wait on the host"),
    row("TORCH_NCCL_HIGH_PRIORITY", BOOL, Workload, ANY, "communication on streams of high priority")
        .since("PyTorch 2.4"),
    row("UCX_NET_DEVICES", Text, System, NET, "devices for UCX (MPI, UCC), not for NCCL: `mlx5_0:1`"),
    row("UCX_TLS", Text, System, NET, "UCX's transports; `tcp`, as scripts for NCCL tests have it, cripples MPI"),
];
