"""A command that waits for one response starts quickly: it loads nothing that draws."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.system

SLOW = {"asyncio", "rich", "fastapi", "pydantic"}
"""Packages that only terminals, services and simulators need."""


def test_commands_load_nothing_that_draws() -> None:
    code = "import forewarn.cli.campaigns, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stdout.split())
    assert "forewarn.cli.lists" in loaded
    assert not loaded & SLOW
