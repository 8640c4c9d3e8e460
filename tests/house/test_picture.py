"""The recordings of the documentation: what is recorded, and what is kept."""

import json
from pathlib import Path

import pytest

from deploy.picture import COLUMNS, Printed, Program, cast, draw, record

STATIC = Path(__file__).resolve().parents[2] / "docs" / "_static"

SAYS = """
import sys, time
print("\\x1b[32mgrün\\x1b[0m", flush=True)
for byte in "ä€😀".encode():
    sys.stdout.buffer.write(bytes([byte]))
    sys.stdout.buffer.flush()
"""


def test_program_is_recorded_on_a_terminal_with_its_times() -> None:
    printed = record(Program("says", ("-c", SAYS)))
    assert "".join(piece.text for piece in printed) == "\x1b[32mgrün\x1b[0m\r\nä€😀"
    times = [piece.seconds for piece in printed]
    assert times == sorted(times)


def test_failed_program_is_not_recorded() -> None:
    with pytest.raises(SystemExit, match="says failed with status 3"):
        record(Program("says", ("-c", "raise SystemExit(3)")))


def test_recording_has_all_of_the_output_and_the_picture_its_start() -> None:
    printed = [Printed(float(at), f"line {at}\r\n") for at in range(50)]
    header, *events = map(json.loads, cast("make it", printed).splitlines())
    assert (header["version"], header["width"]) == (2, COLUMNS)
    assert events[-1] == [49.0, "o", "line 49\r\n"]
    picture = draw("make it", "".join(f"line {at}\n" for at in range(50)))
    assert "line&#160;33" in picture
    assert "line&#160;34" not in picture
    assert "@font-face" not in picture


def test_recording_of_the_lab_shows_that_all_was_seen() -> None:
    text = (STATIC / "lab.cast").read_text(encoding="utf-8")
    shown = "".join(line[2] for line in map(json.loads, text.splitlines()[1:]))
    for part in ("$ forewarn maintain h1", "approves", "noticed it after", "removed"):
        assert part in shown
    assert "✘" not in shown
