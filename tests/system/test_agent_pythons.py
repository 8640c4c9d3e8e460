"""The agent on the oldest Python that it knows: every module, every decision.

Tests that run a process there are marked `pythons` in the files next to this one, and
`make real` runs all of them.
"""

import ast
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from deploy import bundle
from forewarn.agent.front import USAGE
from tests.support.pythons import OLDEST, Python, needing_oldest, oldest
from tests.support.unpacked import ROOT

pytestmark = [pytest.mark.system, pytest.mark.slow]

LIBRARIES = ROOT / ".build" / "old"
"""The directory in which `make tools` has installed pytest and hypothesis for the
oldest Python."""

DECISIONS = (
    "tests/unit/agent/core",
    "tests/unit/agent/journal/test_errors.py",
    "tests/unit/protocol",
    "tests/unit/test_instants.py",
)
"""Tests of what decides, and of SQLite's errors, all written for that Python."""

ABOUT_OTHERS = ("test_approvals.py", "test_frozen.py", "test_slotted.py")
"""Tests of the protocol that are about the service only, or compare it with what Python
has since 3.10."""

IMPORT_ALL = """
import importlib
for name in sys.argv[1:]:
    importlib.import_module(name)
print(*sorted(sys.modules))
"""


def modules() -> list[str]:
    """Return the names of all modules that the agent's file has of forewarn."""
    names = [
        name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for name in bundle.sources()
        if name.endswith(".py")
    ]
    # That one runs the agent as it is imported, under its own name only.
    return [name for name in names if not name.endswith("__main__")]


@pytest.mark.pythons
def test_every_module_is_imported_without_warnings(
    python: Python, tmp_path: Path
) -> None:
    assert len(modules()) > 150
    # A warning would be one of a later Python that has no mercy.
    done = subprocess.run(
        [*python.script(f"import sys\n{IMPORT_ALL}"), *modules()],
        cwd=tmp_path,
        env={**os.environ, "PYTHONWARNINGS": "error"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert set(modules()) <= set(done.stdout.split())


@needing_oldest()
def test_oldest_python_imports_only_from_the_agent_file(
    tmp_path: Path,
) -> None:
    """So that what is tested above and elsewhere is what people get."""
    agent = oldest(tmp_path)
    asking = "import sys, forewarn; print(sys.version_info[:2], forewarn.__file__)"
    done = subprocess.run(
        agent.script(asking), capture_output=True, text=True, timeout=60, check=True
    )
    version = tuple(map(int, OLDEST.split(".")))
    assert done.stdout == f"{version} {agent.file}/forewarn/__init__.py\n"


@pytest.mark.long
@needing_oldest()
def test_oldest_python_passes_the_unit_tests(tmp_path: Path) -> None:
    if not LIBRARIES.exists():
        pytest.skip(f"needs pytest for Python {OLDEST}: make tools")
    settings = tmp_path / "pytest.ini"
    settings.write_text("[pytest]\nmarkers =\n  clause\n  amounts\n", encoding="utf-8")
    passed_over = [f"--ignore=tests/unit/protocol/{name}" for name in ABOUT_OTHERS]
    # That one takes an option of this run.
    passed_over.append(
        "--deselect=tests/unit/agent/core/test_table.py::test_agent_states_page_is_up_to_date"
    )
    done = subprocess.run(
        [
            *(oldest(tmp_path).program, "-B", "-m", "pytest", "-q", "-c", settings),
            *("--rootdir=.", "--noconftest", "-p", "no:cacheprovider"),
            *("-p", "tests.support.profiles", "--import-mode=importlib"),
            *("-W", "error", *passed_over, *DECISIONS),
        ],
        cwd=ROOT,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join(map(str, (LIBRARIES, ROOT, ROOT / "src"))),
        },
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4_000:]
    assert " passed" in done.stdout
    assert int(done.stdout.split(" passed")[0].split()[-1]) > 500


OLDER = """
import runpy, sys
sys.version_info = (3, 8, 18)
sys.argv = [sys.argv[1], "--version"]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_older_python_is_refused_with_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "forewarn-agent.pyz"
    bundle.bundle(file)
    done = subprocess.run(
        [sys.executable, "-I", "-c", OLDER, file],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == USAGE
    assert done.stdout == ""
    assert done.stderr == (
        "forewarn-agent: this is Python 3.8, and 3.9 or newer is needed: "
        "name one, as in `python3.9 forewarn-agent.pyz`\n"
    )


def test_refusal_uses_only_syntax_of_any_python() -> None:
    """Its syntax is valid in Python 2.7, which was tested by hand."""
    tree = ast.parse(bundle.main_of(bundle.OLDEST).decode("ascii"))
    node_types = {type(node).__name__ for node in ast.walk(tree)}
    assert node_types <= {
        *("Module", "Import", "ImportFrom", "alias", "If", "Expr", "Call", "Load"),
        *("Compare", "Lt", "BinOp", "Mod", "Name", "Attribute", "Subscript", "Slice"),
        *("Tuple", "Constant"),
    }


def test_bundle_for_newer_pythons_contains_no_tomli(tmp_path: Path) -> None:
    """As an image does, whose Python is known, without an index of packages."""
    file = tmp_path / "forewarn-agent.pyz"
    builder = [sys.executable, ROOT / "deploy" / "bundle.py", "--oldest", "3.11", file]
    subprocess.run(builder, check=True, timeout=60)
    assert not [name for name in zipfile.ZipFile(file).namelist() if "tomli" in name]
    done = subprocess.run(
        [sys.executable, "-I", "-S", file, "settings", "--json"],
        cwd=tmp_path,
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.startswith(b"[")
