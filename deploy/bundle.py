"""Makes the agent's single file: `python deploy/bundle.py dist/forewarn-agent.pyz`.

It has the agent, the protocol and what they stand on, and nothing else, so that it
runs with any Python 3.11 or newer and nothing installed. Two builds of one tree by one
Python are the same, byte for byte: names are sorted and times are fixed. Beside each
module is its code for the Python that builds it, which halves the time to start; other
Pythons pass over it and read the source.
"""

import ast
import importlib.util
import marshal
import sys
import zipfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"
PARTS = (
    "forewarn/__init__.py",
    "forewarn/clock.py",
    "forewarn/instants.py",
    "forewarn/logs.py",
    "forewarn/problems.py",
    "forewarn/supervisor.py",
    "forewarn/texts.py",
    "forewarn/toml.py",
    "forewarn/protocol",
    "forewarn/agent",
)
SHEBANG = b"#!/usr/bin/env python3\n"
MAIN = """\
import sys

from forewarn.agent.__main__ import main

sys.exit(main())
"""
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
LONG_AGO = (1980, 1, 1, 0, 0, 0)


def sources() -> dict[str, bytes]:
    """Return the modules of the agent, by their names below the source."""
    found: dict[str, bytes] = {}
    for part in PARTS:
        place = SOURCE / part
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if path.suffix in {".py", ".sql"}:
                found[path.relative_to(SOURCE).as_posix()] = path.read_bytes()
    return found


def code_of(name: str, source: bytes) -> bytes:
    """Return the code of a module, which no date or change of the source undoes.

    It has no docstrings: they would be two of the twenty megabytes that the agent
    needs. Lines are numbered as in the source, which is in the file too.
    """
    tree = ast.parse(source, filename=name)
    for node in ast.walk(tree):
        if not isinstance(node, DOCUMENTED) or ast.get_docstring(node) is None:
            continue
        first = node.body[0]
        assert isinstance(first, ast.Expr)
        # Not empty, since dataclasses would make up a text then.
        first.value = ast.copy_location(ast.Constant(" "), first.value)
    code = compile(tree, name, "exec", dont_inherit=True, optimize=0)
    # PEP 552: unchecked, and so without a need for the hash.
    return importlib.util.MAGIC_NUMBER + b"\1\0\0\0" + bytes(8) + marshal.dumps(code)


def bundle(target: Path) -> None:
    """Write the file, ready to be run."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as opened:
        opened.write(SHEBANG)
        with zipfile.ZipFile(opened, "w", zipfile.ZIP_STORED) as archive:
            files = {"__main__.py": MAIN.encode(), **sources()}
            for name, data in sorted(files.items()):
                archive.writestr(zipfile.ZipInfo(name, LONG_AGO), data)
                if name.endswith(".py"):
                    info = zipfile.ZipInfo(f"{name}c", LONG_AGO)
                    archive.writestr(info, code_of(name, data))
    target.chmod(0o755)


if __name__ == "__main__":
    bundle(Path(sys.argv[1]))
