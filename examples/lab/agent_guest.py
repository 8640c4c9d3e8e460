"""A guest that runs the real agent: Python and the agent in its first file system.

The Python is the oldest that the agent supports, as `make tools` unpacks it.
"""

import hashlib
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterable
from pathlib import Path

from examples.lab.image import Image, MissingError, build, kept

from deploy import bundle

AGENT_MEMORY_MIB = 256
"""Memory of a guest with Python."""

VERSION = ".".join(map(str, bundle.OLDEST))

_LEFT_OUT = {
    *("test", "idlelib", "lib2to3", "distutils", "pydoc_data", "ensurepip"),
    "sitecustomize.py",
}
"""Parts of the standard library that no agent needs."""

SETTINGS = """\
poll = "1s"
state = "/agent/agent.db"
listen = ""

[gone_after]
started = "5s"

[[handler]]
name = "pool"
kind = "exec"
prepare = ["/bin/sh", "-c", "echo out of the pool >/dev/console"]
recover = ["/bin/sh", "-c", "echo back in the pool >/dev/console"]

[[notify]]
kind = "file"
path = "/dev/console"
"""

RUN = f"""\
#!/bin/sh
# After the network is up, init.sh runs this instead of asking by itself.
echo "AGENT starts"
exec /usr/bin/python{VERSION} /agent/app run --config /agent/agent.toml
"""


def agent_image(tools: Path, cache: Path) -> Image:
    """Return the image of the guest with the agent; raises ImageError."""
    root = tools / f"python{VERSION}"
    elf = root / "usr/bin" / f"python{VERSION}.elf"
    if not elf.exists():
        raise MissingError(
            f"needs an unpacked Python {VERSION}: sh tests/real/older_python.sh always"
        )
    digest = hashlib.sha256(elf.read_bytes())
    sources = [path for part in bundle.PARTS for path in _files(bundle.SOURCE / part)]
    for path in (*sources, bundle.PINS, Path(__file__)):
        digest.update(path.read_bytes())

    def make(directory: Path) -> None:
        _fill(directory, root, elf)

    files = kept(cache / f"agent-{digest.hexdigest()[:16]}", make)
    more = {str(path.relative_to(files)): path.read_bytes() for path in _files(files)}
    return build(tools, cache, more)


def _files(place: Path) -> Iterable[Path]:
    found = [place] if place.is_file() else sorted(place.rglob("*"))
    return [
        path for path in found if path.is_file() and "__pycache__" not in path.parts
    ]


def _fill(directory: Path, root: Path, elf: Path) -> None:
    """Write Python, its libraries and the agent below a directory."""
    library = directory / "usr/lib" / f"python{VERSION}"
    shutil.copytree(
        root / "usr/lib" / f"python{VERSION}",
        library,
        ignore=lambda _, names: [name for name in names if name in _LEFT_OUT],
    )
    agent = directory / "agent"
    agent.mkdir()
    packed = agent / "packed"
    bundle.bundle(packed)
    with zipfile.ZipFile(packed) as file:
        file.extractall(agent / "app")
    packed.unlink()
    (agent / "agent.toml").write_text(SETTINGS, encoding="utf-8")
    (agent / "run").write_text(RUN, encoding="utf-8")
    for place in (library, agent / "app"):
        _compile(root / "usr/bin" / f"python{VERSION}", place)
    (directory / "usr/bin").mkdir()
    shutil.copy(elf, directory / "usr/bin" / f"python{VERSION}")
    for path in _libraries(root, [elf, *library.rglob("*.so")]):
        to = "lib64" if path.name.startswith("ld-linux") else "usr/lib/x86_64-linux-gnu"
        (directory / to).mkdir(parents=True, exist_ok=True)
        shutil.copy(path, directory / to / path.name)


def _compile(python: Path, place: Path) -> None:
    """Replace modules by their bytecode: without hardware virtualization, to compile them
    in the guest would take most of its start.
    """
    words = "-m compileall -q -b -f --invalidation-mode unchecked-hash"
    subprocess.run([python, *words.split(), place], check=True, capture_output=True)
    for path in place.rglob("*.py"):
        path.unlink()


def _libraries(root: Path, programs: Iterable[Path]) -> set[Path]:
    """Return the libraries of programs: their own, and those of this machine."""
    own = ":".join(str(path) for path in root.glob("**/*-linux-gnu"))
    said = subprocess.run(
        ["env", f"LD_LIBRARY_PATH={own}", "ldd", *programs],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    found = {Path(path) for path in re.findall(r"(/\S+\.so\S*) \(0x", said)}
    # Threads need it, which load it when they end.
    return found | {*Path("/lib").glob("x86_64-linux-gnu/libgcc_s.so.1")}
