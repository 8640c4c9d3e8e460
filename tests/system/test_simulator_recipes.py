"""The commands of the recipes for containers and forges, without those."""

import os
import subprocess
import sys
import sysconfig
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import ci_jobs, testcontainers
from tests.support.agents import free_port
from tests.support.processes import PATIENCE_SECONDS, eventually, http
from tests.support.programs import Program

pytestmark = [pytest.mark.system, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
RECIPES = ROOT / "deploy" / "simulator"
CLIENT = ROOT / "examples" / "clients" / "watch.py"
JAVA = RECIPES / "testcontainers" / "SpotTest.java"
SCRIPTS = sysconfig.get_path("scripts")


@pytest.fixture
def environ() -> dict[str, str]:
    """The environment of a machine where forewarn is installed."""
    return {**os.environ, "PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}"}


@pytest.fixture
def container(environ: dict[str, str], tmp_path: Path) -> Iterator[dict[str, str]]:
    """The program in the container of the recipes, and its environment."""
    operators = f"127.0.0.1:{free_port()}"
    arguments = [*testcontainers.simulated(JAVA), "--admin", operators]
    arguments[1] = f"127.0.0.1:{free_port()}"
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            ["forewarn", "simulate", *arguments], env=environ, stdout=log, stderr=log
        )
    try:
        yield {
            **environ,
            "FOREWARN_URL": f"http://{operators}",
            "FOREWARN_ENDPOINT": f"http://{arguments[1]}",
        }
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


def test_requests_in_a_container_are_carried_out(container: dict[str, str]) -> None:
    endpoint = container["FOREWARN_ENDPOINT"]

    def status() -> int:
        try:
            return http(f"{endpoint}/metadata/versions")[0]
        except OSError:
            return 0

    # The outputs that the recipes wait for.
    eventually(status, lambda found: found == 200)
    Program(endpoint).events()
    preempt, listed = testcontainers.orders(JAVA)
    _order(preempt, container)
    assert '"approved_by": null' in _order(listed, container)
    Program(endpoint).look()
    assert '"approved_by": "web_0"' in _order(listed, container)


def _order(arguments: list[str], environ: dict[str, str]) -> str:
    return subprocess.run(
        ["forewarn", *arguments],
        env=environ,
        check=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    ).stdout


@pytest.mark.parametrize(
    ("program", "passes"),
    [
        pytest.param(
            f"{sys.executable} {CLIENT} true", True, id="a program that approves"
        ),
        pytest.param(
            "sleep 600", False, id="a program that sleeps", marks=pytest.mark.long
        ),
    ],
)
def test_forge_job_passes_and_fails_with_the_program(
    environ: dict[str, str], tmp_path: Path, program: str, passes: bool
) -> None:
    # Its operator API listens at the next port.
    job = ci_jobs.simulation(RECIPES / "ci" / "gitlab-ci.yml")
    script = job.replace("./your-program", program).replace(
        "127.0.0.1:8301", f"127.0.0.1:{free_port(following=1)}"
    )
    if not passes:
        # It is waited for as long as that.
        script = script.replace("--plain", "--plain --wait 1s")
    done = subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=tmp_path,
        env=environ,
        check=False,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_SECONDS,
    )
    assert (done.returncode == 0) is passes, done.stdout + done.stderr
    report = ET.parse(tmp_path / "scenario.xml").getroot()
    assert report.findall("testsuite[@name='spot-preemption']")
