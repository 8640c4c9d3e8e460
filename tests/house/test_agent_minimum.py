"""Check that the files that run in each VM use only what Python 3.9 has."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from deploy import bundle

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
SETTINGS: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
OLDEST = ".".join(map(str, bundle.OLDEST))
PARTS = {f"src/{part}" for part in bundle.PARTS}

BOTTOM = {"src/forewarn/ids.py"}
"""Not part of the agent, but next to its files: it must run on the same Python."""

WORKERS = {"src/forewarn/drivers/libvirt/worker"}
"""Run by a Python of the machine, which may be as old; nothing of it is the agent's."""


def pythons_of_pyright() -> set[str]:
    environments = SETTINGS["tool"]["pyright"]["executionEnvironments"]
    return {
        environment["root"]
        for environment in environments
        if environment.get("pythonVersion") == OLDEST
    }


def pythons_of_ruff() -> set[str]:
    targets: dict[str, str] = SETTINGS["tool"]["ruff"]["per-file-target-version"]
    versions: set[str] = set()
    for pattern, version in targets.items():
        if version == f"py{OLDEST.replace('.', '')}" and pattern.startswith("src/"):
            head, brace, rest = pattern.partition("{")
            names, _, tail = rest.partition("}")
            versions |= (
                {f"{head}{name}{tail}" for name in names.split(",")}
                if brace
                else {head.removesuffix("/**")}
            )
    return versions


def pythons_of_make() -> set[str]:
    done = subprocess.run(
        ["make", "--eval", "said: ; @echo $(AGENT)", "said"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "judge",
    [pythons_of_pyright, pythons_of_ruff, pythons_of_make],
    ids=lambda e: e.__name__,
)
def test_each_checker_covers_all_agent_files(judge: Any) -> None:
    assert judge() - WORKERS == PARTS | BOTTOM


def test_agent_imports_only_modules_for_the_oldest_python() -> None:
    def is_ours(name: str) -> bool:
        path = f"src/{name.replace('.', '/')}"
        return any(
            module_file in PARTS
            for module_file in (f"{path}.py", f"{path}/__init__.py")
        ) or any(path.startswith(f"{part}/") or path == part for part in PARTS)

    strays: list[str] = []
    for file, data in bundle.sources().items():
        for node in ast.walk(ast.parse(data)):
            names = (
                [name.name for name in node.names]
                if isinstance(node, ast.Import)
                else []
            )
            if isinstance(node, ast.ImportFrom):
                module = str(node.module)
                names = [module]
                if module == "forewarn":
                    names = [f"forewarn.{name.name}" for name in node.names]
            strays += [
                f"{file}: {name}"
                for name in names
                if name.startswith("forewarn") and not is_ours(name)
            ]
    assert set(strays) <= {
        # The version, which is in the package itself.
        "forewarn/agent/front.py: forewarn.__version__",
        "forewarn/agent/observability/pages.py: forewarn.__version__",
    }


def test_annotations_are_never_evaluated() -> None:
    """On Python 3.9 `X | None` is a mistake wherever it is."""
    annotated = (ast.AnnAssign, ast.FunctionDef)
    for name, data in bundle.sources().items():
        tree = ast.parse(data)
        if any(isinstance(node, annotated) for node in ast.walk(tree)):
            [first, *_] = (node for node in tree.body if not isinstance(node, ast.Expr))
            assert ast.unparse(first) == "from __future__ import annotations", name


PLANTED = {
    "zip(strict)": "def planted() -> object:\n    return zip((1,), (2,), strict=True)\n",
    "bisect.bisect(key)": "import bisect\n\nbisect.bisect((1,), 2, key=abs)\n",
    "int.bit_count": "BITS = (1).bit_count()\n",
    "datetime.UTC": "from datetime import UTC\n\nprint(UTC)\n",
    "pattern matching": "match 1:\n    case 1:\n        pass\n",
}
"""Features that a type checker accepts at any version, or no longer knows the version
of."""


@pytest.mark.parametrize("what", PLANTED)
def test_too_new_python_feature_is_found(what: str, tmp_path: Path) -> None:
    """`make types` runs this command; pyright reports unions that are evaluated."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    [line] = re.findall(r"(?m)^\t@\$\(BIN\)/vermin (.*) \$\(AGENT\)$", makefile)
    file = tmp_path / "planted.py"
    file.write_text(f"{PLANTED[what]}\n", encoding="utf-8")
    done = subprocess.run(
        [Path(sys.executable).with_name("vermin"), *line.split(), file],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert what in done.stdout
