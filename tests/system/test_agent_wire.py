"""The agent's watcher and its approvals under every fault of the simulator.

On real sockets, step by step. Each problem that clients of the real service have
reported has its own test; so has each that some client was seen to die of.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.agent.core.model import Consent, Polled
from forewarn.agent.core.polling import Pace
from forewarn.agent.watcher import Watcher
from forewarn.agent.wire.endpoint import Endpoint, Result
from forewarn.clock import SystemClock
from forewarn.instants import MILLISECOND, SECOND
from forewarn.protocol.events import EventSource, EventStatus, EventType
from forewarn.protocol.notices import Notice
from forewarn.sim.faults.fault import FAULTS, Approval, Fault, Playbook, Replacement
from forewarn.sim.loop import LoopThread
from forewarn.sim.staged import Staged
from tests.support.processes import Serving
from tests.support.stages import StagedFleet, staged_fleet

pytestmark = [pytest.mark.system, pytest.mark.clause("8.1")]

PATIENT = Pace(timeout=20 * SECOND, first_timeout=20 * SECOND)
"""On a busy machine, no poll must time out that no fault makes wait."""

IMPATIENT = Pace(timeout=150 * MILLISECOND, first_timeout=200 * MILLISECOND)
"""As impatient as no agent is, for faults that wait in real time."""

SLOW = frozenset({"delay", "timeout", "slow"})
"""Faults that make a request wait."""

ENDS = {
    "delay 400ms": "timeout",
    "timeout": "timeout",
    "refuse": "reset",
    "reset": "reset",
    "reset 0": "reset",
    "slow 60/80ms": "timeout",
    "400": "http_4xx",
    "404": "http_4xx",
    "410": "http_4xx",
    "429": "http_429",
    "500": "http_5xx",
    "503 retry-after 1": "http_5xx",
    "empty": "empty",
    "text": "unreadable",
    "html": "unreadable",
    "broken": "unreadable",
    "no-events": "unreadable",
    "mistyped": "ok",
    "newline": "ok",
    "null-events": "unreadable",
    "duplicate-events": "ok",
    "reordered-events": "ok",
    "stale": "ok",
    "stuck": "ok",
    "incarnation-reset": "ok",
    "iso-dates": "ok",
}
"""The result of a poll that a fault has hit."""


@pytest.fixture
def fleet(loop: LoopThread) -> Iterator[StagedFleet]:
    with staged_fleet(loop) as fleet:
        yield fleet


@pytest.fixture
def agent(fleet: StagedFleet) -> Iterator["Agent"]:
    agent = Agent(fleet)
    yield agent
    agent.watcher.stop()
    agent.endpoint._client.close()


def kind_of(line: str) -> str:
    """Return the kind of a fault."""
    return line.partition(" ")[0]


class Agent:
    """The part of an agent that talks to the endpoint, driven step by step."""

    def __init__(self, fleet: StagedFleet, vm: str = "web_0") -> None:
        host, port = fleet.at[vm]
        clock = SystemClock()
        self.endpoint = Endpoint(lambda: [f"http://{host}:{port}"], clock=clock)
        self.told: list[Polled] = []
        self.begin(PATIENT)

    def begin(self, pace: Pace) -> None:
        """Begin to watch."""
        self.watcher = Watcher(
            self.endpoint, pace=pace, clock=SystemClock(), tell=self.told.append
        )

    def expect(self, line: str) -> None:
        """Begin again, impatiently if a fault makes requests wait."""
        if kind_of(line) in SLOW:
            self.begin(IMPATIENT)

    def poll(self, times: int = 1) -> str:
        """Poll at once, without the pauses; return how the last poll ended."""
        for _ in range(times):
            self.watcher.turn()
        last = self.watcher.view.last
        assert last is not None
        assert last is not Result.FAULT
        return last.value

    @property
    def notices(self) -> dict[str, Notice]:
        return {notice.event_id: notice for notice in self.told[-1].notices}


def survives(agent: Agent, fleet: StagedFleet, line: str) -> list[str]:
    """Have it poll before, under and after a fault; return how polls under it ended."""
    first = fleet.event("web_0")
    agent.expect(line)
    agent.poll(2)
    fleet.set("", line)
    second = fleet.event("web_1")
    ends = [agent.poll() for _ in range(3)]
    fleet.call(lambda stage: stage.faults.clear())
    agent.poll()
    assert {*agent.notices} == {first, second}
    assert agent.told[-1].name == "web_0"
    return ends


@pytest.mark.parametrize("line", ENDS)
def test_agent_survives_each_fault(agent: Agent, fleet: StagedFleet, line: str) -> None:
    assert survives(agent, fleet, line) == [ENDS[line]] * 3


def test_every_kind_of_fault_is_tested() -> None:
    assert {kind_of(line) for line in ENDS} == {*FAULTS} - {"ok", "replace"}


@pytest.mark.parametrize("line", [*ENDS])
def test_agent_survives_each_fault_at_startup(
    agent: Agent, fleet: StagedFleet, line: str
) -> None:
    event = fleet.event("web_0")
    agent.expect(line)
    fleet.set("", f"{line} x2 on all")
    agent.poll(6)
    assert {*agent.notices} == {event}
    assert agent.watcher.view.last in {Result.OK, Result.UNCHANGED}


# Reports about the real service.


def test_empty_200_answers_are_tolerated(agent: Agent, fleet: StagedFleet) -> None:
    survives(agent, fleet, "empty")
    assert agent.watcher.view.polls[Result.EMPTY] == 3


def test_text_plain_answer_is_read(agent: Agent, fleet: StagedFleet) -> None:
    assert survives(agent, fleet, "mistyped") == ["ok"] * 3


def test_missing_events_member_removes_no_event(
    agent: Agent, fleet: StagedFleet
) -> None:
    survives(agent, fleet, "no-events")
    assert all(polled.notices for polled in agent.told)


def test_raw_line_breaks_are_read(agent: Agent, fleet: StagedFleet) -> None:
    survives(agent, fleet, "newline")
    assert agent.watcher.view.polls[Result.UNREADABLE] == 0


@pytest.mark.parametrize("status", ["410", "429", "500", "503"])
def test_http_error_status_ends_no_event(
    agent: Agent, fleet: StagedFleet, status: str
) -> None:
    survives(agent, fleet, status)
    assert status in {result.value[-3:] for result in Result} | {"410", "500", "503"}
    assert all(polled.notices for polled in agent.told)


def test_poll_timeouts_end_no_event(agent: Agent, fleet: StagedFleet) -> None:
    assert survives(agent, fleet, "timeout") == ["timeout"] * 3


def test_notice_shorter_than_documented_is_used_as_given(
    agent: Agent, fleet: StagedFleet
) -> None:
    wanted = Staged(
        event_type=EventType.PREEMPT,
        vms=("web_0",),
        source=EventSource.PLATFORM,
        notice=5 * SECOND,
    )
    fleet.call(lambda stage: stage.inject(wanted))
    agent.poll()
    (notice,) = agent.notices.values()
    (event,) = fleet.events()
    assert notice.not_before == event.not_before


def replacement(document: object) -> Playbook:
    body = json.dumps(document).encode()
    answer = Replacement(body=body, content_type="application/json")
    return Playbook(steps=(Fault(kind="replace", replacement=answer, times=1),))


def test_new_event_can_have_started_with_any_incarnation(
    agent: Agent, fleet: StagedFleet
) -> None:
    event = {
        "EventId": "602D9444-D2CD-49C7-8624-8643E7171297",
        "EventStatus": "Started",
        "EventType": "Freeze",
        "ResourceType": "VirtualMachine",
        "Resources": ["web_0"],
        "NotBefore": "",
    }
    document = {"DocumentIncarnation": 279, "Events": [event]}
    agent.poll()
    fleet.call(lambda stage: stage.faults.play(replacement(document)))
    agent.poll()
    (notice,) = agent.notices.values()
    assert notice.has_started
    assert agent.watcher.view.incarnation == 279
    agent.poll()
    assert agent.watcher.view.incarnation == 1


def test_a_huge_body_is_not_read(agent: Agent, fleet: StagedFleet) -> None:
    huge = Replacement(body=b" " * (1 << 20) + b"{}", content_type="application/json")
    playbook = Playbook(steps=(Fault(kind="replace", replacement=huge, times=1),))
    agent.poll()
    fleet.call(lambda stage: stage.faults.play(playbook))
    assert agent.poll() == "too_large"
    assert agent.poll() == "ok"


def test_a_redirect_is_refused(agent: Agent, fleet: StagedFleet) -> None:
    there = Replacement(status=302, headers=(("Location", "http://127.0.0.1:9/"),))
    playbook = Playbook(steps=(Fault(kind="replace", replacement=there, times=1),))
    fleet.call(lambda stage: stage.faults.play(playbook))
    assert agent.poll() == "http_3xx"
    assert "redirect" in agent.watcher.view.detail


# Known mistakes of clients.


def test_agent_keeps_watching_after_an_event(agent: Agent, fleet: StagedFleet) -> None:
    """Several clients stop reading after the first event (clause 8.7)."""
    event = fleet.event()
    agent.poll()
    assert agent.endpoint.approve(event, timeout=SECOND).consent is Consent.GIVEN
    agent.poll()
    assert agent.notices[event].has_started
    fleet.call(lambda stage: stage.advance(3_600 * SECOND))
    agent.poll(2)
    assert [len(polled.notices) for polled in agent.told[-2:]] == [0, 0]
    again = fleet.event()
    agent.poll()
    assert {*agent.notices} == {again}


def test_unchanged_document_is_not_reported_again(
    agent: Agent, fleet: StagedFleet
) -> None:
    """Several clients act again on each poll; here they get nothing to act on."""
    fleet.event()
    agent.poll(30)
    assert len(agent.told) == 2


@pytest.mark.parametrize(
    ("kind", "approval"),
    [
        (kind.name, approval)
        for kind in FAULTS.values()
        for approval in kind.approvals
        if kind.name not in {"ok", "replace"}
    ],
)
def test_approval_is_accepted_refused_or_sent_again(
    agent: Agent, fleet: StagedFleet, kind: str, approval: Approval
) -> None:
    """No answer to it breaks anything, not even one that is no JSON."""
    argument = {"delay": " 400ms", "slow": " 20/80ms"}.get(kind, "")
    event_id = fleet.event()
    agent.poll()
    fleet.set("web_0", f"{kind}{argument} post {approval.value} x1")
    timeout = 150 * MILLISECOND if kind in SLOW else 20 * SECOND
    answered = agent.endpoint.approve(event_id, timeout=timeout)
    wanted = Consent.REFUSED if kind == "400" else Consent.WANTED
    if kind in {"empty", "text"}:
        wanted = Consent.GIVEN
    assert answered.consent is wanted
    assert answered.detail or wanted is Consent.GIVEN
    again = agent.endpoint.approve(event_id, timeout=20 * SECOND)
    assert again.consent is Consent.GIVEN
    (event,) = fleet.events()
    assert event.status is EventStatus.STARTED


# A service that offers to wait.

FLEET = """
[[scope]]
name = "web"
kind = "availability-set"
[[host]]
name = "h1"
[[vm]]
name = "web_0"
host = "h1"
scope = "web"
listen = "127.0.0.1:0"
"""


@pytest.mark.slow
def test_push_is_used_if_offered(tmp_path: Path) -> None:
    service = Serving(tmp_path, FLEET, metadata_push="true").wait_ready()
    try:
        clock = SystemClock()
        endpoint = Endpoint(lambda: [service.urls["VM web_0"]], clock=clock)
        pace = Pace(wait=2 * SECOND)
        reports: list[Polled] = []
        watcher = Watcher(endpoint, pace=pace, clock=clock, tell=reports.append)
        watcher.turn()
        watcher.turn()
        assert endpoint.longest_wait > 0
        began = clock.monotonic()
        watcher.turn()
        assert 1.5 < clock.monotonic() - began < 10
        assert watcher.view.waits
        assert watcher.view.last is Result.UNCHANGED
        watcher.stop()
        endpoint._client.close()
    finally:
        service.process.kill()
        service.process.wait()
