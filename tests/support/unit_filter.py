"""Runs a command with no more system calls than a systemd unit allows it.

`python -m tests.support.unit_filter UNIT COMMAND …`. systemd itself is not asked to
run anything: which calls a group has is said by systemd-analyze, and libseccomp makes
the filter.
"""

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

LIBRARY = "libseccomp.so.2"
ALLOW = 0x7FFF0000
REFUSE = 0x00050000
"""With the number of the error in the low half."""
UNKNOWN = -1
"""The result of libseccomp for an unknown name. A lower number is a system call that
this machine does not have."""
EPERM = 1


def why_not() -> str:
    """Return why it cannot be done on this machine; empty: it can."""
    if sys.platform != "linux":
        return "only Linux has such filters"
    if shutil.which("systemd-analyze") is None:
        return "systemd-analyze is not installed"
    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        return f"{LIBRARY} is not installed"
    return ""


def allowed(unit: str) -> set[str]:
    """Return the system calls that a unit's text allows, by name."""
    groups = _groups()
    calls = set(_expanded(groups, ["@default"]))
    lines = [
        line.partition("=")[2].strip()
        for line in unit.splitlines()
        if line.startswith("SystemCallFilter=")
    ]
    assert lines, "the unit allows everything"
    assert not lines[0].startswith("~"), "the unit begins with what it allows"
    for line in lines:
        named = set(_expanded(groups, line.removeprefix("~").split()))
        calls = calls - named if line.startswith("~") else calls | named
    return calls


def _groups() -> dict[str, list[str]]:
    process = subprocess.run(
        ["systemd-analyze", "syscall-filter", "--no-pager"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    groups: dict[str, list[str]] = {}
    members: list[str] = []
    for line in process.stdout.splitlines():
        word = line.strip()
        if line.startswith("@"):
            members = groups.setdefault(word, [])
        elif line.startswith("#"):
            members = []  # what the kernel has besides is in no group
        elif word and not word.startswith("#"):
            members.append(word)
    return groups


def _expanded(groups: dict[str, list[str]], names: Iterable[str]) -> Iterator[str]:
    for word in names:
        if word.startswith("@"):
            yield from _expanded(groups, groups[word])
        else:
            yield word


def keep_to(names: Iterable[str]) -> None:
    """Have this process, and what it becomes and starts, refused all other calls."""
    seccomp = ctypes.CDLL(LIBRARY)
    seccomp.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(seccomp.seccomp_init(ctypes.c_uint32(REFUSE | EPERM)))
    assert context
    for name in sorted(names):
        number = seccomp.seccomp_syscall_resolve_name(name.encode())
        if number > UNKNOWN:
            failed = seccomp.seccomp_rule_add(
                context, ctypes.c_uint32(ALLOW), number, 0
            )
            assert not failed, (name, failed)
    assert seccomp.seccomp_load(context) == 0


def main() -> None:
    """Become the command that the arguments name, behind the unit."""
    unit, *command = sys.argv[1:]
    keep_to(allowed(Path(unit).read_text(encoding="utf-8")))
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
