"""A worker that trains nothing: it writes down what it found in itself, in OUT/RANK.json."""

import json
import os
import subprocess
import sys


def cpus(status):
    return next(line.split()[1] for line in status.splitlines() if line.startswith("Cpus_allowed_list"))


def of(process):
    with open(f"/proc/{process}/status") as status:
        return cpus(status.read())


# Before anything else could have changed it.
found = {"born": of("self"), "agent": of(os.getppid()), "prefix": sys.prefix}


class Data:
    def __len__(self):
        return 1

    def __getitem__(self, _):
        return len(os.sched_getaffinity(0)), min(os.sched_getaffinity(0))


def children():
    from torch.utils.data import DataLoader

    number, first = next(iter(DataLoader(Data(), num_workers=1)))
    found["loader"] = [int(number), int(first)]
    found["child"] = cpus(subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True).stdout)
    # Looks like the other rank, and was pinned by its user.
    other = {**os.environ, "LOCAL_RANK": "1" if os.environ["LOCAL_RANK"] == "0" else "0"}
    pinned = ["taskset", "-c", "0", "cat", "/proc/self/status"]
    found["pinned"] = cpus(subprocess.run(pinned, capture_output=True, text=True, env=other).stdout)


def reduce():
    import torch
    import torch.distributed

    torch.distributed.init_process_group("gloo")
    total = torch.tensor([float(torch.distributed.get_rank() + 1)])
    torch.distributed.all_reduce(total)
    found["sum"] = total.item()
    torch.distributed.barrier()


if os.environ.get("TRAIN") in ("reduce", "all"):
    reduce()
if os.environ.get("TRAIN") == "all":
    children()
names = ["RANK", "LOCAL_RANK", "WORLD_SIZE", "SLURMD_NODENAME", "OMP_NUM_THREADS", "TORCHELASTIC_RUN_ID"]
found.update({name: os.environ.get(name) for name in names})
with open(f"{os.environ['OUT']}/{os.environ['SLURM_NODEID']}.{os.environ['LOCAL_RANK']}.json", "w") as out:
    json.dump(found, out)
# Not through the destructors of PyTorch's C++ side: on a busy machine one of them now and then ends the process with SIGABRT, because
# a thread of gloo still runs.
os._exit(0)
