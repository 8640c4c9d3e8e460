"""The Pythons that agents run on in tests: that of the tests, and the oldest.

The oldest is `python3.9` of the PATH, or what `make tools` has unpacked
(tests/real/older_python.sh).
"""

import functools
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from deploy import bundle
from tests.support.unpacked import TOOLS

OLDEST = ".".join(map(str, bundle.OLDEST))
UNPACKED = TOOLS / f"python{OLDEST}" / "usr" / "bin" / f"python{OLDEST}"
WORKS = "import ctypes, hashlib, sqlite3, ssl, zoneinfo"
"""The modules that an agent may need. A name on the PATH can be a script that is not
Python."""


class Python(NamedTuple):
    """An interpreter, and how it runs an agent."""

    program: str
    file: str = ""
    """The agent's single file, where the package is not installed."""

    @property
    def agent(self) -> tuple[str, ...]:
        """Return the words that begin a command of the agent."""
        if self.file:
            return self.program, self.file
        return self.program, "-m", "forewarn.agent"

    def script(self, text: str) -> tuple[str, ...]:
        """Return the words that begin a command which runs a program text."""
        if self.file:
            text = f"import sys; sys.path.insert(0, {self.file!r})\n{text}"
        return self.program, "-c", text


THIS = Python(sys.executable)


@functools.cache
def find_oldest() -> str:
    """Return where the oldest Python is; empty: nowhere."""
    for name in (f"python{OLDEST}", str(UNPACKED)):
        if path := shutil.which(name):
            done = subprocess.run(
                [path, "-c", WORKS], capture_output=True, timeout=60, check=False
            )
            if done.returncode == 0:
                return path
    return ""


def needing_oldest() -> pytest.MarkDecorator:
    """Skip a test where the oldest Python is not here."""
    return pytest.mark.skipif(
        not find_oldest(), reason=f"needs Python {OLDEST}: make tools"
    )


def oldest(directory: Path) -> Python:
    """Return the oldest Python, with the agent's file built into a directory."""
    file = directory / "forewarn-agent.pyz"
    if not file.exists():
        bundle.bundle(file)
    return Python(find_oldest(), str(file))


def choices(names: Sequence[str]) -> list[object]:
    """Return parameters for a test: `this`, `oldest`, or both."""
    return [
        pytest.param(
            name, marks=[needing_oldest()] if name == "oldest" else [], id=name
        )
        for name in names
    ]
