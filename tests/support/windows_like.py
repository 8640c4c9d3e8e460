"""Runs the agent's own program with nothing of POSIX but what Python itself uses.

    python -m tests.support.windows_like --config agent.toml

It stands in for Windows, which is not here: `os.name` and `sys.platform` say that it is
Windows, modules that only POSIX has cannot be imported, and the agent's modules see an
`os`, a `signal`, a `socket` and a `select` without what Windows lacks, as the
documentation of each names it. It cannot show: paths with backslashes, files that
cannot be deleted while they are open, and Windows's own processes.
"""

import fcntl
import importlib
import os
import pkgutil
import select
import shutil
import signal
import socket
import sqlite3
import ssl
import subprocess
import sys
import tempfile
from types import ModuleType

POSIX_MODULES = (
    *("fcntl", "grp", "pwd", "resource", "termios", "tty", "pty", "syslog", "crypt"),
    *("nis", "spwd", "posixshmem"),
)

MISSING = {
    "os": (
        *("chown", "fchmod", "fchown", "fork", "forkpty", "getegid", "geteuid"),
        *("getgid", "getgroups", "getloadavg", "getpgid", "getpgrp", "getpriority"),
        *("getresuid", "getsid", "getuid", "initgroups", "killpg", "lchown", "lockf"),
        *("mkfifo", "mknod", "nice", "openpty", "posix_fadvise", "posix_spawn"),
        *("pread", "pwrite", "register_at_fork", "sched_getaffinity", "sched_yield"),
        *("set_blocking", "setegid", "seteuid", "setgid", "setpgid", "setsid"),
        *("setuid", "statvfs", "sync", "sysconf", "uname", "wait", "wait3", "wait4"),
        *("waitid", "writev", "O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK"),
        *("O_SYNC", "O_DSYNC", "O_PATH", "WNOHANG", "P_PID", "pidfd_open"),
        *("WIFEXITED", "WIFSIGNALED", "WEXITSTATUS", "WTERMSIG", "getrandom"),
    ),
    "signal": (
        *("SIGKILL", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGCHLD", "SIGPIPE"),
        *("SIGALRM", "SIGSTOP", "SIGCONT", "SIGTSTP", "alarm", "pause", "setitimer"),
        *("sigwait", "sigtimedwait", "sigpending", "pthread_kill", "pthread_sigmask"),
        *("siginterrupt", "pidfd_send_signal"),
    ),
    "socket": ("AF_UNIX", "AF_PACKET", "AF_NETLINK", "SO_REUSEPORT", "SCM_RIGHTS"),
    "select": ("poll", "epoll", "kqueue", "devpoll"),
}
"""For each module, the names that Python has on Linux and not on Windows."""

USED = (shutil, sqlite3, ssl, subprocess, tempfile)
"""Modules that look at the platform as they are loaded, and so are loaded before it is
another one."""


def lacking(whole: ModuleType) -> ModuleType:
    """Return a module without the names that Windows lacks."""
    module = ModuleType(whole.__name__)
    missing = MISSING[whole.__name__]
    vars(module).update(
        {name: value for name, value in vars(whole).items() if name not in missing}
    )
    return module


def locks() -> ModuleType:
    """Return what stands in for `msvcrt`: a lock of some bytes from where a file is."""
    module = ModuleType("msvcrt")
    exclusive = fcntl.LOCK_EX | fcntl.LOCK_NB

    def locking(descriptor: int, mode: int, count: int) -> None:
        assert mode == vars(module)["LK_NBLCK"]
        start = os.lseek(descriptor, 0, os.SEEK_CUR)
        fcntl.lockf(descriptor, exclusive, count, start)

    vars(module).update(locking=locking, LK_NBLCK=2)
    return module


def become_windows() -> None:
    """Change this process, and load every module of the agent in it."""
    assert all(USED)
    sys.modules["msvcrt"] = locks()
    for name in POSIX_MODULES:
        sys.modules[name] = None  # pyright: ignore[reportArgumentType]
    for whole, name, value in (
        (subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        (signal, "CTRL_BREAK_EVENT", signal.SIGTERM),
    ):
        setattr(whole, name, value)
    os.name = "nt"
    sys.platform = "win32"
    stand_ins = {
        module.__name__: lacking(module) for module in (os, signal, socket, select)
    }
    for name in agent_modules():
        importlib.import_module(name)
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "forewarn":
            for word, stand_in in stand_ins.items():
                if word in vars(module):
                    setattr(module, word, stand_in)


def agent_modules() -> list[str]:
    """Return the names of the agent's modules, but what runs when it is imported."""
    package = importlib.import_module("forewarn.agent")
    packages = pkgutil.walk_packages(package.__path__, "forewarn.agent.")
    return [
        package.name for package in packages if not package.name.endswith("__main__")
    ]


if __name__ == "__main__":
    become_windows()
    program = importlib.import_module("forewarn.agent.__main__")
    sys.exit(program.main(sys.argv[1:]))
