"""The history of a real process: downtime over a `kill -9`, and the view of a VM."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import Serving, http
from tests.system.test_operating import forewarn
from tests.system.test_serve import FLEET

pytestmark = [pytest.mark.system, pytest.mark.slow]

Start = Callable[..., Serving]
OWN = "/metadata/forewarn/events?api-version=2026-11-01"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Serving] = []

    def begin(**settings: str) -> Serving:
        started.append(Serving(tmp_path / "here", FLEET, **settings))
        return started[-1]

    yield begin
    for service in started:
        service.process.kill()
        service.process.wait()


def availability(service: Serving, vm: str) -> Any:
    return service.admin(f"/v1/availability?vm={vm}")["vms"][0]


def own(service: Serving, vm: str, path: str = OWN) -> tuple[int, Any]:
    return http(service.urls[f"VM {vm}"] + path)


@pytest.mark.clause("9.4")
def test_failure_survives_a_crash_of_the_service(start: Start, tmp_path: Path) -> None:
    service = start(metadata_event_details="true").wait_ready()
    assert service.document("web_0")["Events"] == []
    service.admin("/v1/fail", {"names": ["web_0"]})
    assert availability(service, "web_0")["down_now"] == 1
    status, events = own(service, "web_0")
    assert status == 200
    assert [wait["Reason"] for wait in events["Events"][0]["WaitsFor"]] == ["Operator"]
    service.kill()
    again = start(metadata_event_details="true").wait_ready()
    assert availability(again, "web_0")["down_now"] == 1
    again.admin("/v1/restore", {"names": ["web_0"]})
    down = availability(again, "web_0")
    assert (down["down_now"], down["interruptions"]) == (0, 1)
    assert down["by_kind"] == {"failure": down["unplanned_seconds"]}
    _, events = own(again, "web_0")
    # A VM sees whole seconds, an operator the exact time.
    assert abs(events["Ended"][0]["DownSeconds"] - down["unplanned_seconds"]) < 1
    here = tmp_path / "here"
    url = ("--url", again.urls["operators"])
    for arguments in (("history", "--vm", "nope"), ("availability", "--vm", "nope")):
        assert forewarn(here, *arguments, *url)[0] == 4
    status, output = forewarn(here, "history", "--vm", "web_0", "--summary", *url)
    assert (status, "fail of vm web_0" in output) == (0, True), output
    status, output = forewarn(here, "store", "check")
    assert (status, "no violations" in output) == (0, True), output


def test_disabled_event_details_return_404(start: Start) -> None:
    service = start().wait_ready()
    there = own(service, "web_0")
    assert there == own(service, "web_0", "/metadata/forewarn/nothing")
    assert there[0] == 404
