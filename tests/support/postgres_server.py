"""One PostgreSQL for all processes of a test run, which ends with the last of them.

It is Debian's, from the machine or from `.build/tools`. It has only a socket, in a directory
of its own, and it forgets everything: nothing that tests write has to survive. PostgreSQL
refuses root, so for root it runs as `nobody`.

A guard starts it. Each process of the run shares a lock on a file, and the guard waits for
that lock alone: it gets it when the last process has ended, however that was. If the
guard ends, the kernel ends the server.

    python -m tests.support.postgres_server DIRECTORY
"""

import contextlib
import ctypes
import fcntl
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

from tests.support.processes import eventually
from tests.support.unpacked import ROOT, environment, find

VARIABLE = "FOREWARN_TEST_POSTGRESQL"

# The settings of forewarn are not read from here.
GIVEN = os.environ.get(VARIABLE, "")  # noqa: TID251
"""The URL of a server to use instead; empty: there is none."""

RUN = os.environ.get("PYTEST_XDIST_TESTRUNUID", f"of-{os.getpid()}")  # noqa: TID251
"""The name of this test run, which its processes share."""

PDEATHSIG = 1
"""PR_SET_PDEATHSIG of prctl(2)."""

SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "64MB",
    "max_connections": "200",
    "jit": "off",
    "autovacuum": "off",
    "max_wal_size": "256MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
}


def options(directory: Path, **more: str) -> list[str]:
    """Return the arguments of a server whose data and socket are in `directory`."""
    settings = {**SETTINGS, "unix_socket_directories": str(directory), **more}
    pairs = [
        argument for pair in settings.items() for argument in ("-c", "=".join(pair))
    ]
    return ["-D", str(directory / "data"), *pairs]


def as_nobody() -> dict[str, Any]:
    """Return the arguments with which a program of PostgreSQL is run."""
    if os.geteuid() != 0:
        return {}
    return {"user": "nobody", "group": "nogroup", "extra_groups": []}


def give(path: Path) -> None:
    """Let the user who runs PostgreSQL own a path."""
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(path, nobody.pw_uid, nobody.pw_gid)


def make(directory: Path) -> None:
    """Make the data of a server in a new directory, whose user is `postgres`."""
    directory.mkdir(mode=0o755)
    give(directory)
    subprocess.run(
        [
            *(find("initdb"), "-D", str(directory / "data"), "-U", "postgres"),
            *("-A", "trust", "-E", "UTF8", "--locale=C"),
            *("--no-sync", "--no-instructions"),
        ],
        cwd=directory,
        env=environment("postgres"),
        stdout=subprocess.DEVNULL,
        check=True,
        **as_nobody(),
    )


def start(
    directory: Path, log: Path | None = None, /, **settings: str
) -> "subprocess.Popen[bytes]":
    """Start the server, and return when it listens; it ends with this process.

    Its messages go to `log`, which is in `directory` by default.
    """
    log = log or directory / "log"
    libc = ctypes.CDLL(None)

    def end_with_parent() -> None:
        libc.prctl(PDEATHSIG, signal.SIGQUIT)

    with log.open("ab") as output:
        process = subprocess.Popen[bytes](
            [find("postgres"), *options(directory, **settings)],
            cwd=directory,
            env=environment("postgres"),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=end_with_parent,
            **as_nobody(),
        )
    socket = directory / ".s.PGSQL.5432"

    def listens() -> bool:
        assert process.poll() is None, log.read_text("utf-8")
        return socket.exists() and "ready to accept" in log.read_text("utf-8")

    eventually(listens, bool, what="PostgreSQL")
    return process


def stop(process: "subprocess.Popen[bytes]") -> None:
    """End a server at once, as a crash of the machine does."""
    process.send_signal(signal.SIGQUIT)
    process.wait()


def url_of(
    directory: Path, database: str = "postgres", *, user: str = "postgres"
) -> str:
    """Return the URL of a database of the server in `directory`."""
    return f"postgresql:///{database}?host={directory}&user={user}"


def place_of(run: str) -> Path:
    """Return the directory of the server of a test run."""
    return Path(tempfile.gettempdir(), f"forewarn-postgres-{run}")


def joined(run: str = RUN) -> str:
    """Return the URL of the server of a run, which this process starts if need be."""
    place = place_of(run)
    place.mkdir(mode=0o755, exist_ok=True)
    with _locked(place / "starting"):
        directory = place / "server"
        descriptor = os.open(place / "users", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        # Until this process ends.
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        if not directory.exists():
            make(directory)
            _begin_guard(place)
        return url_of(directory)


def _begin_guard(place: Path) -> None:
    guard = subprocess.Popen(
        [sys.executable, "-m", "tests.support.postgres_server", str(place)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert guard.stdout is not None
    with guard.stdout as output:
        assert output.readline() == b"ready\n", (place / "server" / "log").read_text()
    # The process is not awaited, since it outlives this one.
    guard.returncode = 0


@contextlib.contextmanager
def _locked(file: Path) -> Generator[None]:
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def main(place: Path) -> None:
    """Guard the server in `place` until the last process of the run has ended."""
    server = start(place / "server")
    try:
        print("ready", flush=True)  # noqa: T201 - to the process that started this one
        descriptor = os.open(place / "users", os.O_RDWR | os.O_CLOEXEC)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    finally:
        stop(server)
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
