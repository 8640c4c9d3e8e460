"""A real service with steps of the wall clock and kills in between."""

import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import Serving, eventually, http
from tests.support.profiles import some
from tests.system.test_serve import FLEET

pytestmark = [pytest.mark.system, pytest.mark.slow]

PROMPT_SECONDS = 5.0
"""Maximum seconds of a normal response; a hanging one waits for a step's length."""


class Stepped:
    """A service in a directory that can be killed and whose clock can be set."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._offset = directory / "offset"
        self.set_clock(0)
        self.service = self._start()

    def _start(self) -> Serving:
        return Serving(self._directory, FLEET, clock=str(self._offset)).wait_ready()

    def set_clock(self, seconds: float) -> None:
        fresh = self._directory / "offset.new"
        fresh.write_text(str(seconds), encoding="ascii")
        fresh.replace(self._offset)

    def restart(self) -> None:
        self.service.kill()
        self.service = self._start()

    def document(self, vm: str) -> dict[str, Any]:
        status, document = http(self.service.vm_url(vm), seconds=PROMPT_SECONDS)
        assert status == 200, document
        return document

    def wait_noticed(self, times: int = 1) -> None:
        """Wait until the service has logged a number of steps."""
        eventually(
            self.service.log,
            lambda log: log.count("the wall clock was set") >= times,
            what="the step in the log",
        )

    def events(self, vm: str) -> list[dict[str, Any]]:
        return self.document(vm)["Events"]


@pytest.fixture
def stepped(tmp_path: Path) -> Iterator[Stepped]:
    stepped_service = Stepped(tmp_path)
    yield stepped_service
    stepped_service.service.process.kill()
    stepped_service.service.process.wait()


@pytest.mark.clause("2.10", "3.2", "7.1")
@pytest.mark.parametrize("back", some([20, 3600], usual=[3600]))
@pytest.mark.parametrize("restarts", [False, True], ids=["running", "restarted"])
def test_step_back_hides_no_event_and_blocks_no_get(
    stepped: Stepped, back: int, *, restarts: bool
) -> None:
    assert stepped.events("web_0") == []
    stepped.service.admin("/v1/maintain", {"hosts": ["h1"], "impact": "freeze"})
    shown = stepped.document("web_0")
    stepped.set_clock(-back)
    if restarts:
        stepped.restart()
    assert stepped.document("web_0") == shown
    [event] = shown["Events"]
    assert stepped.service.approve("web_1", event["EventId"]) == 200
    after = stepped.document("web_0")
    assert after["DocumentIncarnation"] > shown["DocumentIncarnation"]
    assert [event["EventStatus"] for event in after["Events"]] == ["Started"]


@pytest.mark.clause("2.10", "4.2")
def test_request_after_step_back_is_shown_and_survives_a_restart(
    stepped: Stepped,
) -> None:
    assert stepped.events("web_0") == []
    stepped.set_clock(-15)
    stepped.service.admin("/v1/maintain", {"hosts": ["h1"], "impact": "freeze"})
    shown = stepped.document("web_0")
    assert [event["EventStatus"] for event in shown["Events"]] == ["Scheduled"]
    stepped.restart()
    assert stepped.document("web_0") == shown


@pytest.mark.clause("2.7", "4.2")
def test_step_forward_shortens_no_notice(stepped: Stepped) -> None:
    assert stepped.events("web_0") == []
    stepped.service.admin("/v1/maintain", {"hosts": ["h1"], "impact": "freeze"})
    [event] = stepped.events("web_0")
    stepped.set_clock(3600)
    stepped.wait_noticed()
    [operation] = stepped.service.admin("/v1/operations")["operations"]
    path = f"/v1/explain/{operation['operation']}"
    response = eventually(
        lambda: stepped.service.admin(path),
        lambda response: (
            "notice" in {blocker["kind"] for blocker in response["blockers"]}
        ),
    )
    assert "the clock was set forward" in str(response["blocked_by"])
    [still] = stepped.events("web_0")
    assert still["EventStatus"] == "Scheduled"
    assert stepped.service.approve("web_0", event["EventId"]) == 200
    [started] = stepped.events("web_0")
    assert started["EventStatus"] == "Started"


def test_steps_are_logged_once_and_counted(stepped: Stepped) -> None:
    stepped.set_clock(-20)
    stepped.wait_noticed(1)
    stepped.set_clock(40)
    stepped.wait_noticed(2)
    log = stepped.service.log()
    assert log.count("the wall clock was set back by 20.") == 1
    assert log.count("the wall clock was set forward by 60.") == 1
    url = stepped.service.urls["operators"] + "/metrics"
    with urllib.request.urlopen(url, timeout=PROMPT_SECONDS) as answer:
        metrics = answer.read().decode()
    assert 'forewarn_clock_steps_total{direction="back"} 1' in metrics
    assert 'forewarn_clock_steps_total{direction="forward"} 1' in metrics
