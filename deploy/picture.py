"""Draw the picture of the README: `make picture`, or `python -m deploy.picture FILE`.

It runs the demo on a terminal, and writes its output as an SVG.
"""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
DEMO = ROOT / "examples" / "demo.py"
COLUMNS = 118
"""Width of the terminal in characters, enough for the timeline of the demo."""
LINES_MAX = 34
"""Maximum lines in the picture: more would be too small to read."""


def record() -> str:
    """Run the demo on a terminal, and return its output."""
    ours, its = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    with subprocess.Popen(
        [sys.executable, DEMO], stdin=its, stdout=its, stderr=its, env=environment
    ) as demo:
        os.close(its)
        printed = bytearray()
        try:
            while data := os.read(ours, 65_536):
                printed += data
        except OSError:
            pass  # Linux reports the end of a terminal this way.
        os.close(ours)
    if demo.returncode:
        sys.exit(f"picture: the demo failed with status {demo.returncode}")
    return printed.decode("utf-8").replace("\r\n", "\n")


def draw(printed: str) -> str:
    """Return the start of a terminal's output as an SVG."""
    lines = printed.splitlines()
    shown = "\n".join([*lines[:LINES_MAX], *(["…"] if len(lines) > LINES_MAX else [])])
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere)
        console.print(Text.from_ansi(shown), soft_wrap=False)
    svg = console.export_svg(title="make demo", unique_id="demo")
    # The picture must not load fonts from other servers.
    return re.sub(r"@font-face \{.*?\}\n *", "", svg, flags=re.DOTALL)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(draw(record()), encoding="utf-8")
