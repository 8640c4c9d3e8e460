"""Real programs for tests: where they are, and how one runs that is only unpacked.

`make test` and `make real` unpack what `tests/real/packages.txt` names: a machine gets no
running server from its tests. An installed program goes before an unpacked one.
"""

import os
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / ".build" / "tools"
PACKAGES = ROOT / "tests" / "real" / "packages.txt"
FROM_INDEX = ROOT / ".build" / "real" / "bin"
"""Programs of the package index; they are asked for by name, and no other is seen."""


def _places() -> list[str]:
    """Return where programs are; an ordinary user does not look everywhere."""
    roots = (Path("/"), TOOLS)
    directories = ("usr/local/sbin", "usr/bin", "usr/sbin", "bin", "sbin")
    return [
        *os.get_exec_path(),
        *(str(root / directory) for root in roots for directory in directories),
        *(str(e) for root in roots for e in root.glob("usr/lib/postgresql/*/bin")),
    ]


PATH = os.pathsep.join(_places())


def find(program: str) -> str:
    """Return where a program is; empty: nowhere."""
    # Slurm's have Debian's own name until their package is really installed.
    for name in (program, f"{program}-wlm"):
        if path := shutil.which(name, path=f"{FROM_INDEX}{os.pathsep}{PATH}"):
            return path
    return ""


def is_unpacked(program: str) -> bool:
    """Return whether a program is here, but is not installed."""
    return find(program).startswith(f"{TOOLS}/")


def libraries() -> list[str]:
    """Return where the libraries are that were unpacked."""
    places = ("usr/lib", "usr/lib/*-linux-gnu", "lib/*-linux-gnu")
    return [str(path) for place in places for path in TOOLS.glob(place)]


def environment(program: str, **more: str) -> dict[str, str]:
    """Return what a program needs to run, and whatever it starts."""
    variables = {"PATH": PATH, **more}
    if is_unpacked(program):
        variables["LD_LIBRARY_PATH"] = os.pathsep.join(libraries())
    return variables


def needs(*programs: str) -> str:
    """Return why a test of these programs cannot be; empty: they are all here."""
    missing = [program for program in programs if not find(program)]
    if not missing:
        return ""
    known = _packages()
    packages = {package for name in missing for package in known.get(name, ())}
    which = f" (Debian: {', '.join(sorted(packages))})" if packages else ""
    return f"needs {', '.join(missing)}{which}: make real"


def needing(*programs: str) -> pytest.MarkDecorator:
    """Skip the tests of these programs where one of them is not here."""
    why = needs(*programs)
    return pytest.mark.skipif(bool(why), reason=why or "they are all here")


def _packages() -> dict[str, list[str]]:
    """Return the Debian packages of each program, its own first."""
    lines = PACKAGES.read_text(encoding="utf-8").splitlines()
    rows = [line.split() for line in lines if line and not line.startswith("#")]
    return {program: packages for _, _, program, *packages in rows}
