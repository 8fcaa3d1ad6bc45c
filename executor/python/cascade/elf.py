"""For which hosts a program was built.

    platform_of(path) ──▶ "linux/amd64", as Go names operating system and architecture; "" for a script, which runs on any
"""

from __future__ import annotations

import struct

_PROGRAMS = (2, 3)  # ET_EXEC, ET_DYN
_SYSTEMS = (0, 3)  # ELFOSABI_NONE, which Linux uses, and ELFOSABI_LINUX
_MACHINES = {  # by number and class; where both byte orders are in use the second name is that of the little-endian one
    (3, 1): ("386",),
    (62, 2): ("amd64",),
    (40, 1): ("arm",),
    (183, 2): ("arm64",),
    (8, 1): ("mips", "mipsle"),
    (8, 2): ("mips64", "mips64le"),
    (21, 2): ("ppc64", "ppc64le"),
    (22, 2): ("s390x",),
    (243, 2): ("riscv64",),
    (258, 2): ("loong64",),
}


def platform_of(path: str) -> str:
    """The platform in the header of a program. A file that no Linux kernel starts is a ValueError."""
    with open(path, "rb") as f:
        head = f.read(20)
    if head.startswith(b"#!"):
        return ""
    if not head.startswith(b"\x7fELF") or len(head) < 20:
        raise ValueError(f"{path} is neither an ELF program nor a script that begins with #!: no kernel starts it")
    little = head[5] == 1
    kind, machine = struct.unpack("<HH" if little else ">HH", head[16:])
    names = _MACHINES.get((machine, head[4]))
    if kind not in _PROGRAMS or head[7] not in _SYSTEMS:
        raise ValueError(f"{path} is no program for Linux")
    if names is None:
        raise ValueError(f"{path} is a program for a machine that Cascade does not know: number {machine}")
    return "linux/" + names[-1 if little else 0]
