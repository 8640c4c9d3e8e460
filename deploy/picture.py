"""Record a program on a terminal: `make picture`, `make recording`.

    python -m deploy.picture demo|lab PICTURE [RECORDING]

The picture is an SVG with the start of the output. The recording has all of it with its
times, as an asciicast of version 2, which `asciinema play` and its web player show.
"""

import json
import os
import pty
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = 118
"""Width of the terminal in characters, enough for the timelines."""
LINES_MAX = 34
"""Maximum lines in the picture: more would be too small to read."""


class Program(NamedTuple):
    """A program that can be recorded."""

    title: str
    words: tuple[str, ...]


PROGRAMS = {
    "demo": Program("make demo", ("examples/demo.py",)),
    "lab": Program("make lab", ("-m", "examples.lab")),
}


class Printed(NamedTuple):
    """A part of the output."""

    seconds: float
    """Time since the start."""
    text: str


def record(program: Program) -> list[Printed]:
    """Run a program on a terminal, and return its output."""
    ours, its = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    began = time.monotonic()
    found: list[Printed] = []
    with subprocess.Popen(
        [sys.executable, *program.words],
        stdin=its,
        stdout=its,
        stderr=its,
        env=environment,
        cwd=ROOT,
    ) as running:
        os.close(its)
        rest = b""
        try:
            while data := os.read(ours, 65_536):
                whole, text = _split(rest + data)
                rest = whole
                found.append(Printed(round(time.monotonic() - began, 3), text))
        except OSError:
            pass  # Linux reports the end of a terminal this way.
        os.close(ours)
    if running.returncode:
        sys.exit(f"picture: {program.title} failed with status {running.returncode}")
    return found


def _split(data: bytes) -> tuple[bytes, str]:
    """Return the bytes of a character that has only begun, and the text before it."""
    for missing in range(4):
        try:
            end = len(data) - missing
            return data[end:], data[:end].decode("utf-8")
        except UnicodeDecodeError:
            continue
    return b"", data.decode("utf-8", "replace")


def cast(title: str, printed: Sequence[Printed]) -> str:
    """Return the output as an asciicast."""
    header = {"version": 2, "width": COLUMNS, "height": LINES_MAX, "title": title}
    lines: list[object] = [header, *([at, "o", text] for at, text in printed)]
    return "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)


def draw(title: str, printed: str) -> str:
    """Return the start of a terminal's output as an SVG."""
    lines = printed.splitlines()
    shown = "\n".join([*lines[:LINES_MAX], *(["…"] if len(lines) > LINES_MAX else [])])
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere)
        console.print(Text.from_ansi(shown), soft_wrap=False)
    svg = console.export_svg(title=title, unique_id=title.rsplit(maxsplit=1)[-1])
    # The picture must not load fonts from other servers.
    return re.sub(r"@font-face \{.*?\}\n *", "", svg, flags=re.DOTALL)


def main(name: str, picture: str, recording: str = "") -> None:
    """Record a program, and write its files."""
    program = PROGRAMS[name]
    printed = record(program)
    whole = "".join(text_.text for text_ in printed).replace("\r\n", "\n")
    Path(picture).write_text(draw(program.title, whole), encoding="utf-8")
    if recording:
        Path(recording).write_text(cast(program.title, printed), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
