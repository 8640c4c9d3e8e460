"""The program of `make demo`."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.system


def test_the_demo_sees_everything_on_the_wire() -> None:
    """All seven parts with real servers and clients, without colors."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "demo.py")],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "All of it was seen on the wire" in done.stdout
    assert "not seen" not in done.stdout
    assert "\x1b[" not in done.stdout
