"""The agent's single file, as it is built: small, alone, the same twice, and at work."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.agents import free_port
from tests.support.pythons import Python

ROOT = Path(__file__).resolve().parents[2]
BUNDLE = ROOT / "deploy" / "bundle.py"

pytestmark = [pytest.mark.system, pytest.mark.slow]

HEAVY = (
    *("asyncio", "concurrent", "email", "http", "multiprocessing", "pickle", "ssl"),
    *("pathlib", "urllib"),
    # These had their work at the start.
    *("argparse", "tomli", "tomllib"),
)
"""Modules that would take a twentieth of the agent's memory each, or more."""

ALONE = ("-I", "-S")
"""Nothing of the directory, of the environment or of what is installed may help it."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("built") / "forewarn-agent.pyz"
    subprocess.run([sys.executable, BUNDLE, file], check=True, timeout=60)
    return file


def test_two_builds_are_the_same(built: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.pyz"
    subprocess.run([sys.executable, BUNDLE, again], check=True, timeout=60)
    assert again.read_bytes() == built.read_bytes()
    assert os.access(built, os.X_OK)


@pytest.mark.pythons
def test_single_file_shows_its_settings(
    built: Path, python: Python, tmp_path: Path
) -> None:
    (tmp_path / "agent.toml").write_text('margin = "3s"\n', encoding="utf-8")
    done = subprocess.run(
        [
            *(python.program, *ALONE, built, "settings", "--json", "--poll", "2s"),
            *("--config", "agent.toml"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    rows = {row["key"]: row for row in json.loads(done.stdout)}
    assert rows["poll"] == {"key": "poll", "value": "2s", "origin": "flag --poll"}
    assert rows["margin"]["value"] == "3s"


@pytest.mark.pythons
def test_running_agent_loads_no_heavy_modules(
    built: Path, python: Python, tmp_path: Path
) -> None:
    """It runs, answers, ends at a signal, and needed little for it."""
    endpoint = f"http://127.0.0.1:{free_port()}"
    wrapper = (
        "import atexit, runpy, sys\n"
        "atexit.register(lambda: print(*sorted(sys.modules)))\n"
        f"sys.argv = [{str(built)!r}, '--endpoint', {endpoint!r}, '--name',"
        " 'a', '--listen', '', '--state', 'agent.db', '--config', 'agent.toml']\n"
        f"runpy.run_path({str(built)!r}, run_name='__main__')\n"
    )
    (tmp_path / "agent.toml").write_text('log.level = "info"\n', encoding="utf-8")
    running = subprocess.Popen(
        # SIGABRT shows what each thread does.
        [python.program, *ALONE, "-X", "faulthandler", "-c", wrapper],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 20
    assert running.stderr is not None
    line = running.stderr.readline()
    while "returned no document" not in line and time.monotonic() < deadline:
        line = running.stderr.readline()
    running.send_signal(signal.SIGTERM)
    try:
        out, err = running.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        running.send_signal(signal.SIGABRT)
        out, err = running.communicate()
    assert running.returncode == 0, err
    loaded = {name.partition(".")[0] for name in out.split()}
    assert "forewarn" in loaded
    assert not loaded & set(HEAVY), loaded & set(HEAVY)
