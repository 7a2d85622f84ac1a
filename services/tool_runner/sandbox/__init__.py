"""The sandbox in which code written by a core, and packages, run. A ladder; `detect` takes the first that works.

**bwrap** (user, mount, pid, network, ipc, uts and cgroup namespaces; no root needed). The child is user 65534 without
capabilities. It sees /usr, the interpreter, its mounts, its workspace and an empty /tmp; no other process, no network
but an unused loopback of its own, no environment but what is listed in `interpreter.child_env`. Read-only is enforced
by the mount. A seccomp filter refuses tracing, mounting, new namespaces, keys, bpf, io_uring, foreign socket families,
files that run as their owner (set-user-id), leases, signals by descriptor and the like. When the run ends, the kernel
ends every process in it.

**landlock** (kernel 5.13 or newer; neither root nor user namespaces). The same filter, which also leaves Unix sockets
as the only ones; Landlock denies every file that is not listed, tracing, and - as far as the kernel knows them - TCP,
abstract sockets and signals to processes outside (6.12). No mount protects what is known of a file beside its content,
so calls that set modes, owners and times answer as if done and do nothing, extended attributes and watches on files are
refused, and so is the scheduling of other processes. What it does not stop:
- nothing is remapped and no process is hidden: paths are the real ones, and pids and file names can be probed with
  stat() although nothing can be opened or listed; /etc/passwd and /etc/group are the real ones. Whoever guesses the
  names of raw files learns their sizes, and a package could know test samples again by them: at this level let `train`
  runners run on a machine that does not hold the raw data;
- Unix sockets that have a path and are open to the runner's user can be connected to, so that user must not be in a
  group such as docker; where the embedded system runs as one ordinary user at this level, the S3 server's own sockets
  in /tmp are among them, which answer only who shows a certificate from the server's folder, closed to every run. NATS
  and S3 listen on TCP, which is out of reach;
- what sockets hold, sent and not yet read, counts against no limit;
- /dev/shm is shared with other runs of the same user (not listable); what is stored there without being mapped counts
  against no limit but that its last part stays free, and remains there after the run;
- the process limit is shared with the user's other processes, so it is set at twice the figure and the watch ends
  the run that passes it; below Linux 6.12 a child can signal other runs of the same user, though not the runner.

**none**: a cleared environment, limits and an orderly end; no isolation. Only when the operator names it.

At every level: never started as root, limits on address space (without CUDA), file size, open files and processes, a
watch on memory, time, what the workspace holds and a disk that runs out of room or inodes, and the death of all
descendants, wherever they went, at the end. Not stopped at any level: a flaw in the kernel or, where GPUs are bound, in
their driver; the use of every GPU that is bound, whose memory and time no limit covers; memory that passes the limit
and is given back between two looks; side channels through caches, timing or load; reading whatever is mounted, which is
why only what the caller may know is mounted. Inside one pod or machine this is one layer of several, not the only one.

What a run leaves is a stranger's, too: results are read back as data (`shared.store.paths.open_inside`), folders are
removed by `remove_tree`, private homes of a killed runner by `sweep_homes`.
"""

from services.tool_runner.sandbox.gpu import Gpus, find_gpus, gpu_mounts
from services.tool_runner.sandbox.homes import sweep_homes
from services.tool_runner.sandbox.interpreter import PythonEnv, python_env
from services.tool_runner.sandbox.model import Finished, Level, Limits, Mount, Outcome
from services.tool_runner.sandbox.removal import remove_tree
from services.tool_runner.sandbox.root import drop_root
from services.tool_runner.sandbox.runner import detect, run

__all__ = [
    "Finished",
    "Gpus",
    "Level",
    "Limits",
    "Mount",
    "Outcome",
    "PythonEnv",
    "detect",
    "drop_root",
    "find_gpus",
    "gpu_mounts",
    "python_env",
    "remove_tree",
    "run",
    "sweep_homes",
]
