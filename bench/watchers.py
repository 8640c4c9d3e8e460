"""The agent in both forms, and programs that people use instead, each as a process."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import machine
from bench.endpoint import Endpoint
from bench.peers import HERE, free_port
from bench.service import PATIENCE_SECONDS
from deploy import bundle

ROOT = Path(__file__).resolve().parents[1]
SYSTEM_PYTHON = "/usr/bin/python3"

AGENT_FILE, AGENT_PACKAGE = "forewarn-agent.pyz", "forewarn agent"
BASH, PYTHON = "a loop of bash and curl", "a loop of plain Python"
AGENTS = (AGENT_FILE, AGENT_PACKAGE)

HANDLER = """\
#!/bin/sh
exec date +%s.%N >>'{times}'
"""
"""The handler, which records its run times. It costs the agent an extra process."""

CERTIFICATE = """\
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost
-addext subjectAltName=IP:127.0.0.1 -keyout {key} -out {certificate}
"""

SETTINGS = """\
endpoint = "{url}"
state = "{directory}/state/agent.db"
listen = "127.0.0.1:{port}"
poll = "{pause:g}s"
push = false
ca_file = "{ca_file}"
[[handler]]
name = "drain"
kind = "exec"
prepare = ["{handler}"]
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watcher:
    """One process that watches an endpoint."""

    name: str
    endpoint: Endpoint
    directory: Path
    process: "subprocess.Popen[bytes]"
    port: int
    """The address of an agent's pages."""

    def handled(self) -> list[float]:
        """Return the times of its handler runs."""
        file = self.directory / "times"
        if not file.exists():
            return []
        return [float(line) for line in file.read_text("ascii").splitlines()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """How to start watchers."""

    directory: Path
    python: str
    """The system's Python, if it is new enough for an agent."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Return an environment in which the package can be imported."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        return {
            **kept,
            "PYTHONPATH": str(self.directory / "site"),
        }

    def command(self, name: str) -> list[str]:
        """Return the first arguments of an agent's command."""
        if name == AGENT_FILE:
            return [self.python, str(self.directory / AGENT_FILE)]
        return [self.python, "-m", "forewarn", "agent"]


def prepare(directory: Path) -> Ground:
    """Build the single file, and install the package into a directory."""
    directory.mkdir(exist_ok=True)
    is_new = "import sys; sys.exit(sys.version_info < (3, 11))"
    python = sys.executable
    if Path(SYSTEM_PYTHON).exists():
        done = subprocess.run([SYSTEM_PYTHON, "-c", is_new], check=False)
        python = python if done.returncode else SYSTEM_PYTHON
    ground = Ground(directory=directory, python=python)
    # It needs pip for the first download, which the system's Python can lack.
    bundle.bundled_directory()
    # With that Python, whose compiled code the file contains.
    builder = [python, str(ROOT / "deploy" / "bundle.py"), str(directory / AGENT_FILE)]
    subprocess.run(builder, check=True)
    # Compile it as pip does: compiling at the first start needs more memory permanently.
    site = directory / "site"
    code = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src" / "forewarn", site / "forewarn", ignore=code)
    compiler = [python, "-m", "compileall", "-q", str(site)]
    subprocess.run(compiler, env=ground.environment, check=True)
    return ground


def certificate(directory: Path) -> tuple[Path, Path]:
    """Create a certificate and key for loopback; return their paths."""
    files = directory / "certificate.pem", directory / "key.pem"
    words = CERTIFICATE.format(certificate=files[0], key=files[1]).split()
    subprocess.run(words, check=True, stderr=subprocess.DEVNULL)
    return files


def names(skipped: Callable[[str], None]) -> list[str]:
    """Return the watchers that can run here; report the others to `skipped`."""
    found = [*AGENTS, PYTHON]
    if shutil.which("curl") and shutil.which("bash"):
        found.append(BASH)
    else:
        skipped("a baseline was skipped: curl is not installed (apt-get install curl)")
    return found


@contextmanager
def watching(
    name: str, ground: Ground, directory: Path, *, pause: float, is_secure: bool = False
) -> Generator[Watcher]:
    """Run one of them with a separate endpoint until the end of the context."""
    directory.mkdir(parents=True, exist_ok=True)
    files = certificate(directory) if is_secure else None
    endpoint, port = Endpoint(files), free_port()
    handler = directory / "handler"
    handler.write_text(HANDLER.format(times=directory / "times"), encoding="utf-8")
    handler.chmod(0o755)
    loop = [endpoint.url, str(handler), f"{pause:g}"]
    if name == BASH:
        words = ["bash", str(HERE / "watch.sh"), *loop]
    elif name == PYTHON:
        words = [ground.python, str(HERE / "watch.py"), *loop]
    else:
        file = directory / "agent.toml"
        text = SETTINGS.format(
            url=endpoint.url,
            directory=directory,
            port=port,
            pause=pause,
            handler=handler,
            ca_file=files[0] if files else "",
        )
        file.write_text(text, encoding="utf-8")
        words = [*ground.command(name), "--config", str(file)]
    process = start(words, ground, directory / "log")
    try:
        yield Watcher(
            name=name,
            endpoint=endpoint,
            directory=directory,
            process=process,
            port=port,
        )
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)
        endpoint.close()


def start(words: Sequence[str], ground: Ground, log: Path) -> "subprocess.Popen[bytes]":
    """Start a program on the server's core."""
    with log.open("ab") as opened:
        return subprocess.Popen(
            machine.pinned(machine.SERVER_CORE, words),
            env=ground.environment,
            stdin=subprocess.DEVNULL,
            stdout=opened,
            stderr=opened,
        )
