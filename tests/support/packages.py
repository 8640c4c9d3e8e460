"""Debian packages and other builds of this tree, for tests to look into."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "forewarn"

JUNK = re.compile(
    r"__pycache__|\.py[co]$|\.(?:hypothesis|venv|build|git)/|\.sqlite3|~$"
)
UNREACHED = re.compile(r"NewConnectionError|NameResolutionError")
"""Errors of pip without a network."""
PATIENCE_SECONDS = 240.0
"""Timeout of one build or installation on a busy machine; each takes a tenth of it."""


def run(*words: str | Path, cwd: Path = ROOT) -> str:
    """Return what a command says; fail with it where it fails."""
    done = subprocess.run(
        words,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def modules() -> set[str]:
    """Return every file of the package, as it lies below the source."""
    return {
        file.relative_to(SOURCE.parent).as_posix()
        for file in SOURCE.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }


def deb(name: str, directory: Path) -> Path:
    """Return a Debian package, built into a directory."""
    if shutil.which("dpkg-deb") is None:
        pytest.skip("dpkg-deb is not here: Debian packages are built on Debian")
    done = subprocess.run(
        [
            *("env", "SOURCE_DATE_EPOCH=1700000000", "PIP_RETRIES=1"),
            *(sys.executable, "-m", "deploy.debian.build", directory, "--only", name),
        ],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    if UNREACHED.search(done.stdout):
        pytest.skip("no package index can be reached for what the service runs on")
    assert done.returncode == 0, done.stdout
    return Path(done.stdout.strip().splitlines()[-1])


def listed(package: Path) -> dict[str, tuple[str, str]]:
    """Return the mode and the owner of each place in a package."""
    entries: dict[str, tuple[str, str]] = {}
    for line in run("dpkg-deb", "--contents", package).splitlines():
        mode, owner, _, _, _, place = line.split(maxsplit=5)
        entries[place.partition(" -> ")[0].removeprefix(".")] = (mode, owner)
    return entries


def check_places(package: Path, wanted: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Fail unless a package is Debian's way; return its places."""
    entries = listed(package)
    assert set(wanted) <= set(entries)
    assert not [entry for entry in entries if JUNK.search(entry) or "/tests/" in entry]
    roots = ("/usr/", "/etc/forewarn/", "/lib/systemd/system/")
    parents = {"/", "/usr/", "/etc/", "/lib/", "/lib/systemd/"}
    assert not [e for e in entries if not e.startswith(roots) and e not in parents]
    assert {owner for _, owner in entries.values()} == {"root/root"}
    modes = {mode for mode, _ in entries.values()}
    assert modes <= {"drwxr-xr-x", "-rw-r--r--", "-rwxr-xr-x", "lrwxrwxrwx"}
    return entries


def same_again(name: str, first: Path, directory: Path) -> bool:
    """Return whether another user's build of a package is the same, to the byte."""
    # Another user has another umask and other directories.
    umask = os.umask(0o077)
    try:
        again = deb(name, directory)
    finally:
        os.umask(umask)
    return again.read_bytes() == first.read_bytes()
