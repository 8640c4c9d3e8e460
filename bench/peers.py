"""The baselines: programs with the same response, started for one run."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import machine
from bench.service import PATIENCE_SECONDS, direct_get, eventually

HERE = Path(__file__).parent / "baselines"

_SKIPPED = {
    "nginx": "nginx is not installed (apt-get install nginx)",
    "Go net/http": "go is not installed (apt-get install golang-go)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The response of every server."""

    body: bytes
    etag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A server to compare with."""

    name: str
    url: str
    pid: int


def free_port() -> int:
    """Return a port that is probably free."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(answer: Answer, directory: Path) -> Generator[tuple[list[Peer], list[str]]]:
    """Start all installed baselines; yield them and the skipped ones."""
    (directory / "body").write_bytes(answer.body)
    commands = {
        "nginx": _nginx,
        "Go net/http": _go,
        "uvicorn, bare ASGI": _uvicorn,
    }
    peers: list[Peer] = []
    skipped: list[str] = []
    with ExitStack() as stack:
        for name, make in commands.items():
            port = free_port()
            command = make(answer, directory, port)
            if command is None:
                skipped.append(_SKIPPED[name])
                continue
            process = stack.enter_context(_started(command, answer, directory))
            url = f"http://127.0.0.1:{port}/"
            eventually(lambda url=url: _gives(url, answer), what=name)
            peers.append(Peer(name=name, url=url, pid=process.pid))
        yield peers, skipped


def _gives(url: str, answer: Answer) -> bool:
    try:
        return direct_get(url) == answer.body
    except OSError:
        return False


@contextmanager
def _started(
    command: list[str], answer: Answer, directory: Path
) -> Generator["subprocess.Popen[bytes]"]:
    environment = {
        **os.environ,
        "BENCH_BODY": str(directory / "body"),
        "BENCH_ETAG": answer.etag,
    }
    with (directory / "peers.log").open("ab") as log:
        process = subprocess.Popen(
            machine.pinned(machine.SERVER_CORE, command),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait(PATIENCE_SECONDS)


def _nginx(answer: Answer, directory: Path, port: int) -> list[str] | None:
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        return None
    text = (HERE / "nginx.conf").read_text("utf-8")
    filled = {
        "directory": str(directory),
        "port": str(port),
        "etag": answer.etag,
        "body": answer.body.decode().replace("\\", "\\\\").replace("'", "\\'"),
    }
    for name, value in filled.items():
        text = text.replace(f"@{name}@", value)
    (directory / "nginx.conf").write_text(text, encoding="utf-8")
    return [program, "-p", str(directory), "-c", str(directory / "nginx.conf")]


def _go(answer: Answer, directory: Path, port: int) -> list[str] | None:
    go = shutil.which("go")
    if go is None:
        return None
    built = directory / "go-server"
    subprocess.run([go, "build", "-o", str(built), HERE / "server.go"], check=True)
    return [str(built), f"127.0.0.1:{port}", str(directory / "body"), answer.etag]


def _uvicorn(_answer: Answer, _directory: Path, port: int) -> list[str]:
    return [
        *(sys.executable, "-m", "uvicorn", f"--app-dir={HERE}", "asgi:app"),
        *("--loop=uvloop", "--http=httptools", "--no-access-log"),
        *("--log-level=warning", "--backlog=4096", f"--port={port}"),
    ]
