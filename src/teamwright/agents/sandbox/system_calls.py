"""Filters of system calls for what neither Landlock nor namespaces hold, as programs for the kernel (classic BPF).

Landlock does not look at modes, owners, times and attributes of files, nor at limits of other processes; namespaces
leave keys and some families of sockets alone. Memory that belongs to no process can't be counted, so it is refused.
"""

from __future__ import annotations

import platform
import struct
from collections.abc import Iterator

EPERM = 1
ALLOW, REFUSE, KILL = 0x7FFF0000, 0x00050000 | EPERM, 0x80000000
LOAD, EQUAL, AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16
X32 = 0x40000000
"""Numbers from here on are another way to make the same calls, which a filter has to refuse."""

ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""The kernel's name of a machine, and the column of its numbers below."""
FAMILIES = (1, 2, 10, 16)
"""Sockets within the machine, of IPv4 and IPv6, and to the kernel; others reach devices and the host of a machine."""

ALWAYS = {
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "memfd_create": (319, 279),
    "memfd_secret": (447, 447), "shmget": (29, 194), "bpf": (321, 280), "perf_event_open": (298, 241),
    "userfaultfd": (323, 282), "io_uring_setup": (425, 425), "fanotify_init": (300, 262),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
}  # fmt: skip
SOCKET = (41, 198)
WITHOUT_NAMESPACES = (
    "chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat", "mknod", "mknodat", "utime",
    "utimes", "futimesat", "setxattr", "lsetxattr", "fsetxattr", "setxattrat", "removexattr", "lremovexattr",
    "fremovexattr", "removexattrat", "file_setattr", "setpriority", "ioprio_set", "inotify_add_watch",
)  # fmt: skip
"""Calls that `sandlock` refuses by name, and its supervisor makes itself, which has the filter of the command too."""
UTIMENSAT = (280, 88)
OF_ITSELF = {
    "prlimit64": (302, 261), "sched_setparam": (142, 118), "sched_setscheduler": (144, 119),
    "sched_setaffinity": (203, 122), "sched_setattr": (314, 274),
}  # fmt: skip
"""Calls that a process may make about itself, whose first argument is then 0."""

Instruction = tuple[int, int, int, int]


def system_call_filter(*, namespaces: bool) -> bytes | None:
    """Return the filter for a program that has namespaces of its own, or that has none; `None` for another machine."""
    known = ARCHITECTURES.get(platform.machine())
    if known is None:
        return None
    name, column = known
    program = [(LOAD, 0, 0, ARCHITECTURE), (EQUAL, 1, 0, name), (RETURN, 0, 0, KILL), (LOAD, 0, 0, NUMBER)]
    program += [(AT_LEAST, 0, 1, X32), (RETURN, 0, 0, REFUSE)] if column == 0 else []
    for numbers in ALWAYS.values() if namespaces else ():
        program += [(EQUAL, 0, 1, numbers[column]), (RETURN, 0, 0, REFUSE)]
    program += _families(SOCKET[column])
    if not namespaces:
        program += _only_zero(UTIMENSAT[column], 2)  # to set the time of a file to now is all that `touch` does
        for numbers in OF_ITSELF.values():
            program += _only_zero(numbers[column], 0)
    return b"".join(struct.pack("=HBBI", *one) for one in [*program, (RETURN, 0, 0, ALLOW)])


def _families(number: int) -> Iterator[Instruction]:
    """Refuse sockets of other families."""
    count = len(FAMILIES)
    yield (EQUAL, 0, count + 2, number)
    yield (LOAD, 0, 0, ARGUMENTS)
    for place, family in enumerate(FAMILIES):
        yield (EQUAL, count - place, 0, family)
    yield (RETURN, 0, 0, REFUSE)
    yield (LOAD, 0, 0, NUMBER)


def _only_zero(number: int, argument: int) -> Iterator[Instruction]:
    """Refuse a call one of whose arguments is not 0, in either half of its 64 bits."""
    low = ARGUMENTS + 8 * argument
    yield (EQUAL, 0, 6, number)
    yield (LOAD, 0, 0, low)
    yield (EQUAL, 0, 2, 0)
    yield (LOAD, 0, 0, low + 4)
    yield (EQUAL, 1, 0, 0)
    yield (RETURN, 0, 0, REFUSE)
    yield (LOAD, 0, 0, NUMBER)
