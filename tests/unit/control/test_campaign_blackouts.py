"""Campaigns announce and start nothing in a blackout, and withdraw what would start in one."""

import pytest

from forewarn.campaigns.lifecycle import CampaignState
from forewarn.campaigns.record import CampaignRecord
from forewarn.control.requests import campaign_changes, campaign_turns, campaigns
from forewarn.control.transactions.work import Work
from forewarn.instants import format_instant, parse_instant
from forewarn.protocol.errors import BadRequestError, RefusedError
from forewarn.protocol.notes import Withdrawn
from forewarn.protocol.operations import OperationState
from forewarn.reporting.campaigns import campaign_report
from forewarn.store import kinds
from forewarn.store.memory import MemoryStore
from forewarn.store.port import every
from forewarn.store.records import AuditKind
from forewarn.wording import operators
from tests.support.campaigns import (
    ONE_STAGE,
    announced,
    campaign,
    ended,
    start,
    steer,
    waits_for,
)
from tests.support.rollouts import world_of
from tests.support.worlds import World

EXPECT = """
[campaign.budget]
in_flight = 4
[campaign.expect]
typical = "20m"
slow = "30m"
"""


def of(hosts: int) -> World:
    return world_of([{f"s{number}": 0} for number in range(hosts)])


def moment(world: World, hours: float) -> str:
    """Return a wall-clock time in UTC after now."""
    micros = world.now + round(hours * 3_600_000_000)
    return format_instant(micros - micros % 1_000_000).removesuffix("Z")


def blackout(world: World, begins: float, ends: float, name: str = "year-end") -> str:
    return (
        f'[[campaign.blackout]]\nname = "{name}"\nfrom = "{moment(world, begins)}"\n'
        f'until = "{moment(world, ends)}"\n'
    )


def change(world: World, **values: str) -> CampaignRecord:
    def decide(work: Work) -> CampaignRecord:
        old = campaigns.find_open(work, "bios")
        return campaign_changes.change(work, old, values)

    return steer(world, decide)


def add(world: World, begins: float, ends: float) -> str:
    """Add a blackout; return its end."""
    until = moment(world, ends)
    change(world, blackout=f"year-end {moment(world, begins)} {until}")
    return f"{until}Z"


def run(world: World) -> None:
    for _ in range(6 * 24 * 60):
        if campaign(world).state is CampaignState.DONE:
            return
        world.advance("1m")
    raise AssertionError(waits_for(world))


def test_no_host_is_announced_or_in_work_in_a_blackout() -> None:
    world = of(12)
    begins, ends = moment(world, 2), moment(world, 10)
    start(world, EXPECT + blackout(world, 2, 10) + ONE_STAGE)
    run(world)
    first, last = parse_instant(f"{begins}Z"), parse_instant(f"{ends}Z")
    done = ended(world, OperationState.DONE)
    assert len(done) == 12
    for operation in done:
        # The work fits before the blackout, or begins after it.
        assert (
            operation.started_at + 30 * 60_000_000 <= first
            or operation.started_at >= last
        )
        announced_at = operation.not_before - 15 * 60_000_000
        assert not first <= announced_at < last - 1_000_000
    assert any(operation.started_at < first for operation in done)
    assert any(operation.started_at > last for operation in done)


def test_explain_and_show_name_the_blackout() -> None:
    world = of(2)
    until = f"{moment(world, 5)}Z"
    start(world, EXPECT + blackout(world, -1, 5) + ONE_STAGE)
    assert announced(world) == []
    why = f"blackout year-end of campaign bios forbids it until {until}"
    assert waits_for(world) == why
    assert world.explain(world.operations()[0].operation_id) == [why]
    row = campaign(world)
    report = world.read(lambda reader: campaign_report(reader, row, now=world.now))
    assert report["blackouts"][0]["name"] == "year-end"
    assert report["blackouts"][0]["ends"] == until


def test_a_blackout_comes_before_a_window() -> None:
    world = of(1)
    hours = '[[campaign.window]]\nstart = "00:00"\nlength = "24h"\n'
    start(world, EXPECT + hours + blackout(world, -1, 5) + ONE_STAGE)
    assert "blackout year-end" in waits_for(world)
    run(world)


def test_windows_are_named_when_only_they_are_closed() -> None:
    world = of(1)
    hours = '[[campaign.window]]\ndays = "sat"\nstart = "22:00"\nlength = "2h"\n'
    start(world, EXPECT + hours + blackout(world, 1_000, 1_005) + ONE_STAGE)
    assert waits_for(world).startswith("the windows of campaign bios allow it from ")


def test_announced_hosts_that_would_start_in_a_new_blackout_are_withdrawn() -> None:
    world = of(4)
    world.vm("s0-0").get()
    start(world, EXPECT + ONE_STAGE)
    world.vm("s0-0").get()
    waiting = announced(world)
    assert waiting
    until = add(world, 0.1, 6)
    assert announced(world) == []
    assert world.vm("s0-0").get().events == []
    withdrawn = ended(world, OperationState.CANCELLED)
    assert [operation.host for operation in withdrawn] == waiting
    note = withdrawn[0].note
    assert isinstance(note, Withdrawn)
    assert operators.note(note).startswith(
        "blackout year-end of campaign bios forbids it; the host waits for its next "
        "announcement as op-"
    )
    assert campaign(world).withdrawn == len(waiting)
    assert campaign(world).state is CampaignState.RUNNING
    assert waits_for(world).endswith(f"forbids it until {until}")
    run(world)
    assert len(ended(world, OperationState.DONE)) == 4


def test_announced_hosts_that_avoid_a_new_blackout_stay_announced() -> None:
    world = of(4)
    start(world, EXPECT + ONE_STAGE)
    waiting = announced(world)
    add(world, 5, 6)
    assert announced(world) == waiting
    assert campaign(world).withdrawn == 0


def test_a_restart_withdraws_the_rest_of_many_announcements(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(campaign_turns, "WITHDRAWN_MAX", 1)
    store = MemoryStore()
    monkeypatch.setattr(store, "close", lambda: None)
    world = world_of([{f"s{number}": 0} for number in range(30)], store=lambda: store)
    start(world, EXPECT.replace("in_flight = 4", "in_flight = 8") + ONE_STAGE)
    for _ in range(120):
        world.advance("1m")
        if len(announced(world)) > 6:
            break
    hosts = len(announced(world))
    assert hosts > 6
    line = f"b {moment(world, 0)} {moment(world, 5)}"
    world.order(
        lambda work: campaign_changes.change(
            work, campaigns.find_open(work, "bios"), {"blackout": line}
        ),
        actor="alice",
    )
    assert announced(world)
    world.restart()
    world.settle()
    assert announced(world) == []
    assert campaign(world).withdrawn == hosts
    assert campaign(world).fitted


def test_early_approval_starts_nothing_that_would_run_into_a_blackout() -> None:
    world = of(1)
    world.vm("s0-0").get()
    # A notice of a quarter of an hour begins before the blackout and ends after it.
    start(world, EXPECT + blackout(world, 0.05, 0.2) + ONE_STAGE)
    (operation,) = world.operations()
    assert operation.state is OperationState.ANNOUNCED
    (event,) = world.vm("s0-0").get().events
    assert world.vm("s0-0").approve(event["EventId"]).status == 200
    (operation,) = world.operations()
    assert operation.state is OperationState.READY
    assert world.explain(operation.operation_id)[0].startswith("blackout year-end")
    world.advance("11m")
    assert not world.operations()[0].started_at
    world.advance("2m")
    assert world.operations()[0].started_at


def test_removed_blackout_lets_held_and_planned_hosts_continue_at_once() -> None:
    world = of(2)
    start(world, EXPECT + blackout(world, -1, 50) + ONE_STAGE)
    assert announced(world) == []
    change(world, remove_blackout="year-end")
    assert announced(world) != []
    assert campaign(world).blackouts == ()
    subject = f"campaign:{campaign(world).campaign_id}"
    changes = [
        entry.facts.changes
        for entry in world.read(
            lambda reader: list(every(reader, kinds.AUDIT_OF_SUBJECT, subject))
        )
        if entry.kind is AuditKind.CAMPAIGN_CHANGED
    ]
    ((key, before, after),) = changes[0]
    assert (key, after) == ("blackouts", "none")
    assert before.startswith("year-end ")


def test_removed_blackout_starts_an_approved_host_at_once() -> None:
    world = of(1)
    world.vm("s0-0").get()
    start(world, EXPECT + blackout(world, 0.05, 0.2) + ONE_STAGE)
    (event,) = world.vm("s0-0").get().events
    world.vm("s0-0").approve(event["EventId"])
    assert not world.operations()[0].started_at
    change(world, remove_blackout="year-end")
    assert world.operations()[0].started_at


def test_wrong_changes_of_blackouts_are_refused() -> None:
    world = of(1)
    start(world, EXPECT + ONE_STAGE)
    with pytest.raises(BadRequestError, match="'soon' is not a blackout"):
        change(world, blackout="soon")
    with pytest.raises(BadRequestError, match="campaign bios has no blackout easter"):
        change(world, remove_blackout="easter")
    for number in range(50):
        change(world, blackout=f"b{number} mon 22:00 1h")
    change(world, blackout="b7 tue 22:00 1h")
    with pytest.raises(BadRequestError, match="at most 50 blackouts"):
        change(world, blackout="b50 mon 22:00 1h")


def test_blackout_that_would_leave_no_time_is_refused() -> None:
    world = of(2)
    hours = '[[campaign.window]]\nstart = "22:00"\nlength = "4h"\n'
    start(world, EXPECT + hours + ONE_STAGE)
    before = campaign(world)
    for line in ("always 00:00 24h", "nights 21:00 9h"):
        name = line.split()[0]
        with pytest.raises(
            RefusedError, match=f"with blackout {name}, no opening"
        ) as no:
            change(world, blackout=line)
        assert "campaign pause bios --reason TEXT" in no.value.hint
    assert campaign(world) == before
    change(world, blackout="first 21:30 2h")
    with pytest.raises(
        RefusedError, match="blackout second, beside blackout first, no"
    ):
        change(world, blackout="second 23:45 3h")
    # One with the same name replaces it.
    change(world, blackout="first 23:45 3h")
    run(world)
