"""The service with only the system calls that its unit allows."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.service import limits
from tests.support import unit_filter
from tests.support.processes import Serving

pytestmark = [pytest.mark.system, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
UNIT = ROOT / "deploy" / "systemd" / "forewarn.service"

FLEET = """
[[host]]
name = "h1"
[[vm]]
name = "web_0"
host = "h1"
listen = "127.0.0.1:0"
"""
LARGE = f"{FLEET}# {'x' * limits.READ_HERE_CHARACTERS_MAX}\n"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Serving]:
    if why := unit_filter.why_not():
        pytest.skip(why)
    under = (sys.executable, str(ROOT / "tests" / "support" / "unit_filter.py"))
    started = Serving(tmp_path, LARGE, under=(*under, str(UNIT)), timing_speed="600")
    yield started
    started.process.kill()
    started.process.wait()


def test_a_large_fleet_file_is_applied_and_vms_are_served(service: Serving) -> None:
    service.wait_ready()
    assert service.document("web_0") == {"DocumentIncarnation": 1, "Events": []}
    service.admin("/v1/maintain", {"hosts": ["h1"], "impact": "freeze"})
    [event] = service.document("web_0")["Events"]
    assert service.approve("web_0", event["EventId"]) == 200
    assert service.terminate() == 0
    assert "Traceback" not in service.log()
