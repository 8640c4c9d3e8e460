"""The first minute: `make demo`'s program, as a newcomer runs it."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.system


def test_the_demo_sees_everything_on_the_wire() -> None:
    """All six stories, with real servers and real clients; colourless here."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "demo.py")],
        capture_output=True,
        text=True,
        timeout=118,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "All of it was seen on the wire" in done.stdout
    assert "not seen" not in done.stdout
    assert "\x1b[" not in done.stdout
