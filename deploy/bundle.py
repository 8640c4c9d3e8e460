"""Build the agent's single file: `python deploy/bundle.py dist/forewarn-agent.pyz`.

It contains only the agent, the protocol and their imports, and runs with any Python 3.9
or newer without installation. It bundles tomli, which Python has only since 3.11, in the
release and with the hashes of requirements/agent.txt; `--oldest 3.11` omits it. Builds
are reproducible byte for byte with one version of Python: names are sorted and times are
fixed. Next to each module is its bytecode for the Python of the build, which halves the
start time; other versions ignore it and read the source.
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
    "forewarn/chat.py",
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

# Any version of Python must be able to parse it, even those that cannot run the agent.
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
    """Return the modules of the agent, by path in the source."""
    found: dict[str, bytes] = {}
    for part in PARTS:
        place = SOURCE / part
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if path.suffix in {".py", ".sql"}:
                found[path.relative_to(SOURCE).as_posix()] = path.read_bytes()
    return found


def _install(into: Path) -> None:
    """Install the bundled distributions into a directory."""
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "-qq", "--no-compile"),
            *("--disable-pip-version-check", "--no-input", "--no-deps"),
            *("--require-hashes", "-r", str(PINS), "--target", str(into)),
            # Of several archives, choose the pure Python one, which runs on any machine.
            *("--only-binary=:all:", "--implementation=py", "--abi=none"),
            *("--platform=any", f"--python-version={'.'.join(map(str, OLDEST))}"),
        ],
        check=True,
    )


def bundled_directory() -> Path:
    """Return the directory with the bundled distributions, as pip installs them.

    They are downloaded once and kept in .build. Raises CalledProcessError.
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
                # Another build may have been faster.
                if not kept.exists():
                    raise
    return kept


def bundled() -> dict[str, bytes]:
    """Return the bundled modules with their licenses and metadata, by path.

    Raises CalledProcessError.
    """
    directory = bundled_directory()
    return {
        file.relative_to(directory).as_posix(): file.read_bytes()
        for file in sorted(directory.rglob("*"))
        if file.suffix == ".py" or file.name == "METADATA" or "licenses" in file.parts
        if file.is_file()
    }


def main_of(oldest: tuple[int, int]) -> bytes:
    """Return the first module, which refuses to run on older versions of Python."""
    words = ".".join(map(str, oldest))
    return MAIN.format(oldest=oldest, words=words).encode()


def code_of(name: str, source: bytes) -> bytes:
    """Return the bytecode of a module, valid regardless of the source's date and content.

    It has no docstrings, which would take two of the agent's twenty megabytes. Line
    numbers match the source, which the file also contains.
    """
    tree = ast.parse(source, filename=name)
    for node in ast.walk(tree):
        if not isinstance(node, DOCUMENTED) or ast.get_docstring(node) is None:
            continue
        first = node.body[0]
        assert isinstance(first, ast.Expr)
        # Not empty, since dataclasses would generate a docstring.
        first.value = ast.copy_location(ast.Constant(" "), first.value)
    code = compile(tree, name, "exec", dont_inherit=True, optimize=0)
    # PEP 552: an unchecked hash-based pyc, so the hash does not matter.
    return importlib.util.MAGIC_NUMBER + b"\1\0\0\0" + bytes(8) + marshal.dumps(code)


def bundle(target: Path, *, oldest: tuple[int, int] = OLDEST) -> None:
    """Write the file, executable with that version of Python and newer ones.

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
    """Build the file named by the arguments."""
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
        # pip has already printed the problem.
        print(f"{arguments.target} was not built", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
