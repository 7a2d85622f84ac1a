"""The system call filter, assembled here so that no library has to be installed.

`program(...)` returns the bytes of a classic BPF program, as `bwrap --seccomp` and prctl(PR_SET_SECCOMP) take it.
Only scalar arguments can be looked at: what hides behind a pointer (clone3, openat2) answers ENOSYS, upon which the
C library uses the older call.
"""

import errno
import platform
import struct
from collections.abc import Sequence

_LD, _JEQ, _JGE, _JSET, _RET, _AND = 0x20, 0x15, 0x35, 0x45, 0x06, 0x54
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NR, _ARCH, _ARG = 0, 4, 16

_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32 = 0x40000000

# Name -> number on x86_64, on aarch64 (None where the call does not exist).
CALLS: dict[str, tuple[int | None, int | None]] = {
    # other processes
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "process_mrelease": (448, 448), "pidfd_getfd": (438, 438), "kcmp": (312, 272),
    "migrate_pages": (256, 238), "move_pages": (279, 239), "pidfd_send_signal": (424, 424), "tkill": (200, 130),
    # mounts and namespaces
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "setns": (308, 268),
    "mount_setattr": (442, 442), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "statmount": (457, 457),
    "listmount": (458, 458),
    # keys, tracing, loading code into the kernel
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218), "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "kexec_load": (246, 104), "kexec_file_load": (320, 294),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    # files by handle, and the machine as a whole
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "swapon": (167, 224), "swapoff": (168, 225),
    "reboot": (169, 142), "sethostname": (170, 161), "setdomainname": (171, 162), "iopl": (172, None),
    "ioperm": (173, None), "acct": (163, 89), "settimeofday": (164, 170), "adjtimex": (159, 171),
    "clock_settime": (227, 112), "clock_adjtime": (305, 266), "vhangup": (153, 58), "syslog": (103, 116),
    "ioprio_set": (251, 30), "nfsservctl": (180, 42),
    "lookup_dcookie": (212, 18), "quotactl": (179, 60), "quotactl_fd": (443, 443),
    "fanotify_init": (300, 262), "modify_ldt": (154, None), "uselib": (134, None), "_sysctl": (156, None),
    # memory that outlives its owner or that no resident size shows
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "semget": (64, 190), "semop": (65, 193),
    "semctl": (66, 191), "semtimedop": (220, 192), "msgget": (68, 186), "msgsnd": (69, 189), "msgrcv": (70, 188),
    "msgctl": (71, 187), "mq_open": (240, 180), "memfd_secret": (447, 447),
}  # fmt: skip
_ABSENT: dict[str, tuple[int | None, int | None]] = {
    "clone3": (435, 435),
    "openat2": (437, 437),
    "memfd_create": (319, 279),
}
_NUMBERS: dict[str, tuple[int | None, int | None]] = {
    "clone": (56, 220), "unshare": (272, 97), "ioctl": (16, 29), "socket": (41, 198), "socketpair": (53, 199),
    "personality": (135, 92), "prlimit64": (302, 261), "open": (2, None), "openat": (257, 56), "truncate": (76, 45),
    "kill": (62, 129), "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240),
    "pidfd_open": (434, 434), "fcntl": (72, 25), "setpriority": (141, 140), "creat": (85, None),
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "mknod": (133, None),
    "mknodat": (259, 33), "setsockopt": (54, 208),
}  # fmt: skip

# Where no mount protects them: what is known of a file beside its content. These answer as if done and do nothing,
# since copying a file sets its mode and times and would fail otherwise.
_IDLE: dict[str, tuple[int | None, int | None]] = {
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, None),
    "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54), "utime": (132, None), "utimes": (235, None),
    "futimesat": (261, None), "utimensat": (280, 88),
}  # fmt: skip
_ATTRIBUTES: dict[str, tuple[int | None, int | None]] = {
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "removexattr": (197, 14),
    "lremovexattr": (198, 15), "fremovexattr": (199, 16), "setxattrat": (463, 463), "removexattrat": (466, 466),
    "file_setattr": (469, 469),
}  # fmt: skip
_WATCHES: dict[str, tuple[int | None, int | None]] = {"inotify_init": (253, None), "inotify_init1": (294, 26)}
_SCHEDULING: dict[str, tuple[int | None, int | None]] = {
    "sched_setaffinity": (203, 122), "sched_setscheduler": (144, 119), "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
}  # fmt: skip

# NEWTIME, NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. The time flag lies in clone's signal byte.
_NAMESPACES = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
_NEWTIME = 0x80
_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_SET_ID = 0o6000
_CREATES = 0o100 | 0o20000000  # O_CREAT, O_TMPFILE: without them the mode is whatever the register held
_SO_SNDBUF, _SO_RCVBUF, _SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 7, 8, 32, 33
_F_SETOWN, _F_SETSIG, _F_SETOWN_EX, _F_SETLEASE, _F_NOTIFY = 8, 10, 15, 1024, 1026
_O_ACCMODE_TRUNC = 0o1003
_O_RDONLY_TRUNC = 0o1000


_TABLES = (CALLS, _ABSENT, _NUMBERS, _IDLE, _ATTRIBUTES, _WATCHES, _SCHEDULING)


def program(*, loopback: bool = False, shield: Sequence[int] = (), no_truncate: bool = False) -> bytes:
    """`shield`: process ids that must not be signalled, for where no namespace hides them and no mount protects files:
    modes, owners, times and attributes of files cannot be changed there either, nor files watched.

    `loopback` lets internet sockets through (and looking up the interfaces, which gloo and NCCL do) and is only right
    in an own network namespace. `no_truncate` is for
    kernels on which Landlock does not yet cover truncation. Raises OSError on an unknown machine type.
    """
    machine = platform.machine()
    if machine not in _AUDIT_ARCH:
        raise OSError(errno.ENOSYS, f"no system call table for {machine}")
    column = 0 if machine == "x86_64" else 1
    code: list[bytes] = []

    def emit(op: int, k: int, jt: int = 0, jf: int = 0) -> None:
        code.append(struct.pack("<HBBI", op, jt, jf, k & 0xFFFFFFFF))

    def refuse(error: int) -> None:
        emit(_RET, _ERRNO | error)

    def call(name: str) -> int | None:
        return next(table[name][column] for table in _TABLES if name in table)

    def always(name: str, error: int) -> None:
        if (number := call(name)) is not None:
            emit(_JEQ, number, 0, 1)
            refuse(error)

    def when(name: str, argument: int, tests: Sequence[tuple[int, int, bool]], error: int, mask: int = 0) -> None:
        """Refuse `name` if the low word of the argument, masked, passes one of (operation, value, is it so)."""
        if (number := call(name)) is None:
            return
        body = [struct.pack("<HBBI", _LD, 0, 0, _ARG + 8 * argument)]
        if mask:
            body.append(struct.pack("<HBBI", _AND, 0, 0, mask))
        for op, value, wanted in tests:
            skip = (0, 1) if wanted else (1, 0)
            body.append(struct.pack("<HBBI", op, *skip, value & 0xFFFFFFFF))
            body.append(struct.pack("<HBBI", _RET, 0, 0, _ERRNO | error))
        body.append(struct.pack("<HBBI", _RET, 0, 0, _ALLOW))
        emit(_JEQ, number, 0, len(body))
        code.extend(body)

    def creates_plain(name: str, flags: int, mode: int) -> None:
        """Refuse a new file that would run as its owner, who is the runner's user outside."""
        if (number := call(name)) is None:
            return
        emit(_JEQ, number, 0, 6)
        emit(_LD, _ARG + 8 * flags)
        emit(_JSET, _CREATES, 0, 3)
        emit(_LD, _ARG + 8 * mode)
        emit(_JSET, _SET_ID, 0, 1)
        refuse(errno.EPERM)
        # Back to the number of the call, since another block looks at the same one.
        emit(_LD, _NR)

    def families(name: str, allowed: Sequence[int], *, interfaces: bool = False) -> None:
        """`interfaces` also lets a netlink socket through that asks for network interfaces (protocol 0)."""
        number = call(name)
        assert number is not None
        netlink = 3 if interfaces else 0
        emit(_JEQ, number, 0, len(allowed) + netlink + 3)
        emit(_LD, _ARG)
        for position, family in enumerate(allowed):
            emit(_JEQ, family, len(allowed) + netlink - position)
        if interfaces:
            emit(_JEQ, _AF_NETLINK, 0, 2)
            emit(_LD, _ARG + 8 * 2)
            emit(_JEQ, 0, 1)
        refuse(errno.EACCES)
        emit(_RET, _ALLOW)

    emit(_LD, _ARCH)
    emit(_JEQ, _AUDIT_ARCH[machine], 1, 0)
    emit(_RET, _KILL)
    emit(_LD, _NR)
    if machine == "x86_64":
        emit(_JGE, _X32, 0, 1)
        refuse(errno.ENOSYS)
    for name in CALLS:
        always(name, errno.EPERM)
    for name in _ABSENT:
        always(name, errno.ENOSYS)
    if no_truncate:
        always("truncate", errno.EPERM)
    if shield:
        for name in _IDLE:
            always(name, 0)
        for name in _ATTRIBUTES:
            always(name, errno.ENOTSUP)
        for name in _WATCHES:
            always(name, errno.EPERM)
        for name in _SCHEDULING:
            when(name, 0, [(_JEQ, 0, False)], 0)
        when("setpriority", 1, [(_JEQ, 0, False)], errno.EPERM)
    creates_plain("open", 1, 2)
    creates_plain("openat", 2, 3)
    # From here on each block loads its argument and returns, so the order does not matter.
    when("clone", 0, [(_JSET, _NAMESPACES, True)], errno.EPERM)
    when("unshare", 0, [(_JSET, _NAMESPACES | _NEWTIME, True)], errno.EPERM)
    when("ioctl", 1, [(_JEQ, _TIOCSTI, True), (_JEQ, _TIOCLINUX, True)], errno.EPERM)
    when("personality", 0, [(_JSET, 0xFFFFFFFF, True)], errno.EPERM)
    for name, argument in (("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("fchmodat2", 2), ("creat", 1)):
        when(name, argument, [(_JSET, _SET_ID, True)], errno.EPERM)
    for name, argument in (("mknod", 1), ("mknodat", 2)):
        when(name, argument, [(_JSET, _SET_ID, True)], errno.EPERM)
    signals = (_F_SETOWN, _F_SETSIG, _F_SETOWN_EX, _F_SETLEASE, _F_NOTIFY)
    when("fcntl", 1, [(_JEQ, value, True) for value in signals], errno.EPERM)
    when("setpriority", 0, [(_JEQ, 0, False)], errno.EPERM)
    when("prlimit64", 0, [(_JEQ, 0, False)], errno.EPERM)
    when("open", 1, [(_JEQ, _O_RDONLY_TRUNC, True)], errno.EPERM, mask=_O_ACCMODE_TRUNC)
    when("openat", 2, [(_JEQ, _O_RDONLY_TRUNC, True)], errno.EPERM, mask=_O_ACCMODE_TRUNC)
    families("socket", (_AF_UNIX, _AF_INET, _AF_INET6) if loopback else (_AF_UNIX,), interfaces=loopback)
    families("socketpair", (_AF_UNIX,))
    # Answers as if done: what a socket can hold is what `proc.Memory` counts it for.
    buffers = (_SO_SNDBUF, _SO_RCVBUF, _SO_SNDBUFFORCE, _SO_RCVBUFFORCE)
    when("setsockopt", 2, [(_JEQ, value, True) for value in buffers], 0)
    if shield:
        pids = [(_JEQ, value, True) for pid in shield for value in (pid, -pid)]
        for name in ("kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_open"):
            when(name, 0, [*pids, (_JEQ, -1, True)], errno.EPERM)
    emit(_RET, _ALLOW)
    return b"".join(code)
