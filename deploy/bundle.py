"""Makes the agent's single file: `python deploy/bundle.py dist/forewarn-agent.pyz`.

It has the agent, the protocol and what they stand on, and nothing else, so that it
runs with any Python 3.9 or newer and nothing installed. What Python has only since 3.11
is in it too: tomli, the release that requirements/agent.txt pins, held to its hashes;
`--oldest 3.11` leaves it out. Two builds of one tree by one Python are the same, byte
for byte: names are sorted and times are fixed. Beside each module is its code for the
Python that builds it, which halves the time to start; other Pythons pass over it and
read the source.
"""

import argparse
import ast
import hashlib
import importlib.util
import marshal
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
PINS = ROOT / "requirements" / "agent.txt"
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
    "forewarn/settings",
    "forewarn/agent",
)
SHEBANG = b"#!/usr/bin/env python3\n"
OLDEST = (3, 9)
HAS_TOMLLIB = (3, 11)

# Any Python has to be able to read it, also those that cannot run what it imports.
MAIN = """\
import sys

if sys.version_info < {oldest}:
    sys.stderr.write(
        "forewarn-agent: this is Python %d.%d, and {words} or newer is needed: "
        "name one, as in `python{words} forewarn-agent.pyz`\\n"
        % sys.version_info[:2]
    )
    sys.exit(2)

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


def _install(into: Path) -> None:
    """Install what is bundled into a folder."""
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "-qq", "--no-compile"),
            *("--disable-pip-version-check", "--no-input", "--no-deps"),
            *("--require-hashes", "-r", str(PINS), "--target", str(into)),
            # Of several archives the one of sources alone, which any machine can run.
            *("--only-binary=:all:", "--implementation=py", "--abi=none"),
            *("--platform=any", f"--python-version={'.'.join(map(str, OLDEST))}"),
        ],
        check=True,
    )


def bundled_folder() -> Path:
    """Return where the distributions are that are bundled, as pip installs them.

    They are fetched once, and kept in .build. Raises CalledProcessError.
    """
    kept = ROOT / ".build" / f"agent-{hashlib.sha256(PINS.read_bytes()).hexdigest()}"
    if not kept.exists():
        kept.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as work:
            made = Path(work) / "made"
            _install(made)
            try:
                made.rename(kept)
            except OSError:
                # Another build may have been quicker.
                if not kept.exists():
                    raise
    return kept


def bundled() -> dict[str, bytes]:
    """Return the modules that are bundled, their licences and what they are, by names.

    Raises CalledProcessError.
    """
    folder = bundled_folder()
    return {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.suffix == ".py" or file.name == "METADATA" or "licenses" in file.parts
        if file.is_file()
    }


def main_of(oldest: tuple[int, int]) -> bytes:
    """Return the first module, which refuses to run on what is older."""
    words = ".".join(map(str, oldest))
    return MAIN.format(oldest=oldest, words=words).encode()


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


def bundle(target: Path, *, oldest: tuple[int, int] = OLDEST) -> None:
    """Write the file, ready to be run by that Python and newer ones.

    Raises CalledProcessError.
    """
    files = {"__main__.py": main_of(oldest), **sources()}
    if oldest < HAS_TOMLLIB:
        files |= bundled()
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as opened:
        opened.write(SHEBANG)
        with zipfile.ZipFile(opened, "w", zipfile.ZIP_STORED) as archive:
            for name, data in sorted(files.items()):
                archive.writestr(zipfile.ZipInfo(name, LONG_AGO), data)
                if name.endswith(".py"):
                    info = zipfile.ZipInfo(f"{name}c", LONG_AGO)
                    archive.writestr(info, code_of(name, data))
    target.chmod(0o755)


def main() -> int:
    """Build what is asked for."""
    parser = argparse.ArgumentParser(description="Make the agent's single file.")
    parser.add_argument("target", type=Path, help="the file that is written")
    parser.add_argument(
        "--oldest",
        choices=("3.9", "3.11"),
        default="3.9",
        help="the oldest Python that is to run it; before 3.11 it needs tomli",
    )
    arguments = parser.parse_args()
    major, minor = map(int, arguments.oldest.split("."))
    try:
        bundle(arguments.target, oldest=(major, minor))
    except subprocess.CalledProcessError:
        # pip has said itself what is wrong.
        print(f"{arguments.target} was not built", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
