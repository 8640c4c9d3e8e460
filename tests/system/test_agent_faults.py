"""An agent at an endpoint with faults: it survives each, and continues its work.

With any fault of the polls before, during and after an event:
the event is prepared for once, approved once and recovered from once (clause 8.1).
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.agent.core import approving
from forewarn.agent.core.model import Consent, Stage
from forewarn.agent.wire.answers import Trouble
from forewarn.agent.wire.endpoint import Outcome, Result
from forewarn.instants import MILLISECOND, MINUTE, SECOND
from forewarn.sim import fleets
from forewarn.sim.faults.fault import FAULTS, Approval, Fault, Playbook, Replacement
from forewarn.sim.loop import LoopThread
from tests.support.agents import Ground, ground
from tests.support.processes import eventually
from tests.support.profiles import some
from tests.support.residents import TOML, Resident, hasten, resident

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.clause("8.1")]

VM = "web_0"


@pytest.fixture
def place(
    loop: LoopThread, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Ground]:
    hasten(monkeypatch)
    fleet = fleets.fleet_text(1)
    with ground(loop, tmp_path, fleet=fleet, speed=6_000) as new_ground:
        yield new_ground


@pytest.fixture
def agent(place: Ground) -> Iterator[Resident]:
    with resident(place.directory / VM, place.world.url(VM)) as agent:
        yield agent.wait_ready()


@pytest.fixture
def impatient(place: Ground) -> Iterator[Resident]:
    """Give an agent that soon gives up a request, for faults that take time."""
    url = place.world.url(VM)
    with resident(place.directory / VM, url, timeout=500 * MILLISECOND) as agent:
        yield agent.wait_ready()


def played(place: Ground) -> int:
    """Return how many requests were hit so far."""
    return place.world.call(lambda sim: sim.stage.faults.played.total())


def suffer(place: Ground, fault: str | Playbook, requests: int) -> None:
    """Have so many requests hit, at least, from now on; the fault stays."""
    before = played(place)
    place.world.call(lambda sim: sim.stage.faults.set("", fault))
    eventually(lambda: played(place), lambda now: now >= before + requests)


def outlives(
    place: Ground, agent: Resident, fault: str | Playbook, *, later: int = 2
) -> None:
    """Inject the fault into polls before, during and after an event.

    `later` is how many polls it hits at most once the event was believed; a document
    that denies it twice in a row is believed in turn.
    """
    suffer(place, fault, 2)
    event = place.event()
    suffer(place, fault, 2)
    place.clear()
    eventually(lambda: place.posts(event), bool)
    agent.wait_task(event, lambda task: task.started)
    if later:
        suffer(place, fault, later) if later > 1 else hit_once(place, fault)
    place.clear()
    lives_on(place, agent, event)


def hit_once(place: Ground, fault: str | Playbook) -> None:
    assert isinstance(fault, str)
    suffer(place, f"{fault} x1", 1)


def lives_on(place: Ground, agent: Resident, event: str) -> None:
    """Look whether an event was handled once, and the next one is as well."""
    task = agent.wait_stage(event, Stage.FINISHED)
    assert task.consent is Consent.GIVEN
    assert agent.did() == [f"prepare {event}", f"recover {event}"]
    assert place.approvals(event) == [VM]
    following = place.event()
    agent.wait_stage(following, Stage.FINISHED)
    assert agent.did()[2:] == [f"prepare {following}", f"recover {following}"]
    assert agent.view.polls[Result.FAULT] == 0
    assert agent.parts.pages.is_alive()


def counted(agent: Resident, *results: Outcome) -> int:
    return sum(agent.view.polls[result] for result in results)


# One test for each fault that users reported for Azure's endpoint.


def test_agent_survives_empty_200_responses(place: Ground, agent: Resident) -> None:
    outlives(place, agent, "empty")
    assert counted(agent, Result.EMPTY) >= 6


@pytest.mark.long
def test_agent_survives_an_html_page(place: Ground, agent: Resident) -> None:
    outlives(place, agent, "html")


@pytest.mark.long
def test_agent_survives_a_plain_text_response(place: Ground, agent: Resident) -> None:
    outlives(place, agent, "text")


def test_document_with_a_text_content_type_is_read(
    place: Ground, agent: Resident
) -> None:
    outlives(place, agent, "mistyped")
    assert counted(agent, Result.UNREADABLE) == 0


def test_missing_events_member_removes_no_event(place: Ground, agent: Resident) -> None:
    outlives(place, agent, "no-events", later=6)
    assert counted(agent, Result.UNREADABLE) >= 10


@pytest.mark.long
def test_null_events_member_removes_no_event(place: Ground, agent: Resident) -> None:
    outlives(place, agent, "null-events", later=6)
    assert counted(agent, Result.UNREADABLE) >= 10


def test_agent_survives_a_truncated_document(place: Ground, agent: Resident) -> None:
    outlives(place, agent, "broken")


@pytest.mark.long
def test_raw_line_breaks_are_read(place: Ground, agent: Resident) -> None:
    outlives(place, agent, "newline")
    assert counted(agent, Result.UNREADABLE) == 0


def test_not_before_in_iso_format_is_read(place: Ground, agent: Resident) -> None:
    place.world.call(lambda sim: sim.stage.faults.set("", "iso-dates"))
    event = place.event(notice="1h")
    note = agent.wait_seen(event)
    assert note.notice is not None
    assert note.notice.not_before is not None
    assert abs(note.notice.not_before - note.at - 60 * MINUTE) < 5 * SECOND
    outlives_the_rest(place, agent, event)


def outlives_the_rest(place: Ground, agent: Resident, event: str) -> None:
    eventually(lambda: place.posts(event), bool)
    place.clear()
    lives_on(place, agent, event)


def test_agent_survives_duplicate_events(place: Ground, agent: Resident) -> None:
    outlives(place, agent, "duplicate-events")


@pytest.mark.long
def test_agent_survives_reordered_events(place: Ground, agent: Resident) -> None:
    outlives(place, agent, "reordered-events")


def test_single_stale_document_is_not_trusted(place: Ground, agent: Resident) -> None:
    outlives(place, agent, "stale", later=1)


def test_agent_survives_a_stuck_document(place: Ground, agent: Resident) -> None:
    outlives(place, agent, "stuck")


@pytest.mark.parametrize("number", some([1, 0, 279], usual=[0]))
def test_agent_survives_an_incarnation_reset_or_jump(
    place: Ground, agent: Resident, number: int
) -> None:
    outlives(place, agent, f"incarnation-reset {number}")


@pytest.mark.parametrize("status", some(["400", "404", "410"], usual=["404"]))
def test_agent_survives_client_errors(
    place: Ground, agent: Resident, status: str
) -> None:
    outlives(place, agent, status)
    assert counted(agent, Result.CLIENT_ERROR) >= 4


def test_no_event_is_missed_after_429_with_a_long_retry_after(
    place: Ground, agent: Resident
) -> None:
    outlives(place, agent, "429 retry-after 3600")
    assert counted(agent, Result.TOO_MANY) >= 4


@pytest.mark.parametrize(
    "status", some(["500", "503", "503 retry-after 60"], usual=["503 retry-after 60"])
)
def test_agent_survives_server_errors(
    place: Ground, agent: Resident, status: str
) -> None:
    outlives(place, agent, status)
    assert counted(agent, Result.SERVER_ERROR) >= 4


def test_agent_survives_reset_connections(place: Ground, agent: Resident) -> None:
    outlives(place, agent, "reset")


@pytest.mark.long
def test_agent_survives_an_interrupted_response(place: Ground, agent: Resident) -> None:
    outlives(place, agent, "reset 20")


@pytest.mark.long
def test_agent_survives_refused_connections(place: Ground, agent: Resident) -> None:
    outlives(place, agent, "refuse")


def test_agent_survives_timeouts(place: Ground, impatient: Resident) -> None:
    outlives(place, impatient, "timeout")
    assert counted(impatient, Trouble.TIMEOUT) >= 4


@pytest.mark.long
def test_agent_survives_a_late_response(place: Ground, impatient: Resident) -> None:
    outlives(place, impatient, "delay 1s")


@pytest.mark.long
def test_agent_survives_a_slow_response(place: Ground, impatient: Resident) -> None:
    outlives(place, impatient, "slow 5/250ms")
    assert counted(impatient, Trouble.TIMEOUT) >= 4


def replaced(**values: object) -> Playbook:
    answer = Replacement(**values)  # pyright: ignore[reportArgumentType]
    return Playbook(steps=(Fault(kind="replace", replacement=answer),))


def test_agent_survives_a_huge_body(place: Ground, agent: Resident) -> None:
    huge = replaced(body=b" " * (1 << 20) + b"{}", content_type="application/json")
    outlives(place, agent, huge)
    assert counted(agent, Trouble.TOO_LARGE) >= 4


@pytest.mark.long
def test_agent_survives_a_deeply_nested_document(
    place: Ground, agent: Resident
) -> None:
    deep = b'{"Events":' * 10_000 + b"1" + b"}" * 10_000
    outlives(place, agent, replaced(body=deep, content_type="application/json"))


def test_redirect_is_not_followed(place: Ground, agent: Resident) -> None:
    there = (("Location", place.world.url(VM) + "/metadata/scheduledevents"),)
    outlives(place, agent, replaced(status=302, headers=there))
    assert counted(agent, Result.REDIRECT) >= 4


def test_proxy_of_the_environment_is_not_used(
    place: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY")
    proxies: dict[str, str] = dict.fromkeys(names, "http://127.0.0.1:9")
    for name, value in proxies.items():
        monkeypatch.setenv(name, value)
    with resident(place.directory / VM, place.world.url(VM), environ=proxies) as agent:
        event = place.event()
        lives_on(place, agent.wait_ready(), event)


def test_agent_survives_fields_of_wrong_types(place: Ground, agent: Resident) -> None:
    odd = {
        "DocumentIncarnation": "2",
        "Events": [
            None,
            7,
            {"EventId": 5},
            {"EventId": "E1", "Resources": "other", "DurationInSeconds": "x"},
            {"EventId": "E2", "EventType": "Novel", "EventStatus": "Odd", "New": {}},
            {"EventId": "E3", "Resources": None, "NotBefore": "soon"},
        ],
    }
    body = json.dumps(odd).encode()
    outlives(
        place, agent, replaced(body=body, content_type="application/json"), later=0
    )


def test_notice_shorter_than_documented_is_used_as_given(
    place: Ground, agent: Resident
) -> None:
    event = place.event("Preempt", notice="2s")
    lives_on_without_the_vm(place, agent, event)


def lives_on_without_the_vm(place: Ground, agent: Resident, event: str) -> None:
    """Look only at what came before: a VM that was evicted is not there any more."""
    eventually(lambda: place.approvals(event), bool)
    assert agent.did() == [f"prepare {event}"]


def test_new_event_that_has_started_is_handled_urgently(
    place: Ground, agent: Resident
) -> None:
    """A Freeze was seen in the real logs whose first notice was that it had begun."""
    place.faults("500")
    event = place.event("Freeze", notice="0s")
    eventually(lambda: counted(agent, Result.SERVER_ERROR), bool)
    place.world.api("fail", {"names": ["h0"]})
    place.clear()
    eventually(lambda: agent.memory.tasks, bool)
    place.world.api("restore", {"names": ["h0"]})
    for task in agent.memory.tasks:
        agent.wait_stage(task.event_id, Stage.FINISHED)
    prepared = [line.split()[1] for line in agent.did() if "prepare" in line]
    recovered = {line.split()[1] for line in agent.did() if "recover" in line}
    assert prepared
    assert recovered <= set(prepared)
    assert place.posts(event) == []


@pytest.mark.clause("8.3")
@pytest.mark.parametrize(
    "fault", some(["404", "500", "empty", "reset"], usual=["404", "empty"])
)
def test_agent_waits_for_its_name_and_then_acts(place: Ground, fault: str) -> None:
    """The agent must know its name before it handles an event."""
    place.faults(f"{fault} on instance")
    with resident(place.directory / VM, place.world.url(VM)) as agent:
        event = place.event()
        agent.wait_task(event, lambda task: not task.mine)
        suffer_on(place, 3)
        assert agent.did() == []
        place.clear()
        lives_on(place, agent, event)


def suffer_on(place: Ground, requests: int) -> None:
    """Have so many more requests hit by what is set."""
    before = played(place)
    eventually(lambda: played(place), lambda now: now >= before + requests)


@pytest.mark.clause("8.3")
def test_stored_name_is_used_while_the_instance_endpoint_fails(
    place: Ground,
) -> None:
    with resident(place.directory / VM, place.world.url(VM)) as agent:
        agent.wait_ready()
    place.faults("404 on instance")
    with resident(place.directory / VM, place.world.url(VM)) as agent:
        lives_on(place, agent, place.event())


@pytest.mark.long
@pytest.mark.clause("8.3")
def test_configured_name_avoids_the_instance_endpoint(
    place: Ground,
) -> None:
    text = f'name = "{VM}"\n{TOML}'
    with resident(place.directory / VM, place.world.url(VM), text) as agent:
        lives_on(place, agent, place.event())
    paths = place.world.call(
        lambda sim: {exchange.request.path for exchange in sim.stage.journal.find()}
    )
    assert paths == {"/metadata/scheduledevents"}


TRIED = (
    "delay 400ms, timeout, refuse, reset, reset 20, slow 5/80ms, 400, 404, 410, 429, "
    "500, 503, empty, text, html, broken, no-events, mistyped, newline, null-events, "
    "duplicate-events, reordered-events, stale, stuck, incarnation-reset, iso-dates"
)


def test_every_kind_of_fault_has_its_test() -> None:
    kinds = {fault.split()[0] for fault in TRIED.split(", ")}
    assert kinds == {*FAULTS} - {"ok", "replace"}


# Approvals


@pytest.mark.parametrize(
    ("kind", "approval"),
    [
        (kind.name, approval)
        for kind in FAULTS.values()
        for approval in kind.approvals
        if kind.name not in {"ok", "replace", "400"}
        # A 200 means that it was accepted, since nothing else is known.
        if kind.name not in {"empty", "text", "html"} or approval is Approval.TAKEN
    ],
)
def test_approval_arrives_despite_a_fault_in_its_response(
    place: Ground, agent: Resident, kind: str, approval: Approval
) -> None:
    """Even one that is not JSON; an approval without a response is sent again."""
    argument = {"delay": " 400ms", "slow": " 5/80ms"}.get(kind, "")
    where = "" if kind == "refuse" else f" post {approval.value}"
    if kind != "refuse":
        place.faults(f"{kind}{argument}{where} x1")
    event = place.event()
    task = agent.wait_stage(event, Stage.FINISHED)
    assert agent.did() == [f"prepare {event}", f"recover {event}"]
    posts = place.posts(event)
    assert 1 <= len(posts) <= 2
    assert posts[-1]["genuine"] == 200
    if approval is Approval.LOST and kind != "refuse":
        assert len(posts) == 2
        assert task.consent is Consent.GIVEN


def test_repeatedly_refused_approval_is_abandoned(
    place: Ground, agent: Resident
) -> None:
    place.faults("400 post lost")
    event = place.event()
    task = agent.wait_task(event, lambda task: task.consent is Consent.REFUSED)
    assert task.stage is Stage.PREPARED
    place.clear()
    place.move(event, "removed")
    agent.wait_stage(event, Stage.FINISHED)
    assert len(place.posts(event)) == approving.REFUSALS_MAX
    assert agent.did() == [f"prepare {event}", f"recover {event}"]


def test_single_refusal_is_retried(place: Ground, agent: Resident) -> None:
    place.faults("400 post lost x1")
    event = place.event()
    task = agent.wait_stage(event, Stage.FINISHED)
    assert task.consent is Consent.GIVEN
    assert len(place.posts(event)) == 2
    assert agent.did() == [f"prepare {event}", f"recover {event}"]
