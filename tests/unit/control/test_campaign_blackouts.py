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


def moment(it: World, hours: float) -> str:
    """Return a wall-clock time in UTC after now."""
    micros = it.now + round(hours * 3_600_000_000)
    return format_instant(micros - micros % 1_000_000).removesuffix("Z")


def blackout(it: World, begins: float, ends: float, name: str = "year-end") -> str:
    return (
        f'[[campaign.blackout]]\nname = "{name}"\nfrom = "{moment(it, begins)}"\n'
        f'until = "{moment(it, ends)}"\n'
    )


def change(it: World, **values: str) -> CampaignRecord:
    def decide(work: Work) -> CampaignRecord:
        old = campaigns.find_open(work, "bios")
        return campaign_changes.change(work, old, values)

    return steer(it, decide)


def add(it: World, begins: float, ends: float) -> str:
    """Add a blackout; return its end."""
    until = moment(it, ends)
    change(it, blackout=f"year-end {moment(it, begins)} {until}")
    return f"{until}Z"


def run(it: World) -> None:
    for _ in range(6 * 24 * 60):
        if campaign(it).state is CampaignState.DONE:
            return
        it.advance("1m")
    raise AssertionError(waits_for(it))


def test_no_host_is_announced_or_in_work_in_a_blackout() -> None:
    it = of(12)
    begins, ends = moment(it, 2), moment(it, 10)
    start(it, EXPECT + blackout(it, 2, 10) + ONE_STAGE)
    run(it)
    first, last = parse_instant(f"{begins}Z"), parse_instant(f"{ends}Z")
    done = ended(it, OperationState.DONE)
    assert len(done) == 12
    for each in done:
        # The work fits before the blackout, or begins after it.
        assert each.started_at + 30 * 60_000_000 <= first or each.started_at >= last
        announced_at = each.not_before - 15 * 60_000_000
        assert not first <= announced_at < last - 1_000_000
    assert any(each.started_at < first for each in done)
    assert any(each.started_at > last for each in done)


def test_explain_and_show_name_the_blackout() -> None:
    it = of(2)
    until = f"{moment(it, 5)}Z"
    start(it, EXPECT + blackout(it, -1, 5) + ONE_STAGE)
    assert announced(it) == []
    why = f"blackout year-end of campaign bios forbids it until {until}"
    assert waits_for(it) == why
    assert it.explain(it.operations()[0].operation_id) == [why]
    found = campaign(it)
    report = it.read(lambda reader: campaign_report(reader, found, now=it.now))
    assert report["blackouts"][0]["name"] == "year-end"
    assert report["blackouts"][0]["ends"] == until


def test_a_blackout_comes_before_a_window() -> None:
    it = of(1)
    hours = '[[campaign.window]]\nstart = "00:00"\nlength = "24h"\n'
    start(it, EXPECT + hours + blackout(it, -1, 5) + ONE_STAGE)
    assert "blackout year-end" in waits_for(it)
    run(it)


def test_windows_are_named_when_only_they_are_closed() -> None:
    it = of(1)
    hours = '[[campaign.window]]\ndays = "sat"\nstart = "22:00"\nlength = "2h"\n'
    start(it, EXPECT + hours + blackout(it, 1_000, 1_005) + ONE_STAGE)
    assert waits_for(it).startswith("the windows of campaign bios allow it from ")


def test_announced_hosts_that_would_start_in_a_new_blackout_are_withdrawn() -> None:
    it = of(4)
    it.vm("s0-0").get()
    start(it, EXPECT + ONE_STAGE)
    it.vm("s0-0").get()
    waiting = announced(it)
    assert waiting
    until = add(it, 0.1, 6)
    assert announced(it) == []
    assert it.vm("s0-0").get().events == []
    withdrawn = ended(it, OperationState.CANCELLED)
    assert [each.host for each in withdrawn] == waiting
    note = withdrawn[0].note
    assert isinstance(note, Withdrawn)
    assert operators.note(note).startswith(
        "blackout year-end of campaign bios forbids it; the host waits for its next "
        "announcement as op-"
    )
    assert campaign(it).withdrawn == len(waiting)
    assert campaign(it).state is CampaignState.RUNNING
    assert waits_for(it).endswith(f"forbids it until {until}")
    run(it)
    assert len(ended(it, OperationState.DONE)) == 4


def test_announced_hosts_that_avoid_a_new_blackout_stay_announced() -> None:
    it = of(4)
    start(it, EXPECT + ONE_STAGE)
    waiting = announced(it)
    add(it, 5, 6)
    assert announced(it) == waiting
    assert campaign(it).withdrawn == 0


def test_a_restart_withdraws_the_rest_of_many_announcements(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(campaign_turns, "WITHDRAWN_MAX", 1)
    kept = MemoryStore()
    monkeypatch.setattr(kept, "close", lambda: None)
    it = world_of([{f"s{number}": 0} for number in range(30)], store=lambda: kept)
    start(it, EXPECT.replace("in_flight = 4", "in_flight = 8") + ONE_STAGE)
    for _ in range(120):
        it.advance("1m")
        if len(announced(it)) > 6:
            break
    hosts = len(announced(it))
    assert hosts > 6
    line = f"b {moment(it, 0)} {moment(it, 5)}"
    it.order(
        lambda work: campaign_changes.change(
            work, campaigns.find_open(work, "bios"), {"blackout": line}
        ),
        actor="alice",
    )
    assert announced(it)
    it.restart()
    it.settle()
    assert announced(it) == []
    assert campaign(it).withdrawn == hosts
    assert campaign(it).fitted


def test_early_approval_starts_nothing_that_would_run_into_a_blackout() -> None:
    it = of(1)
    it.vm("s0-0").get()
    # A notice of a quarter of an hour begins before the blackout and ends after it.
    start(it, EXPECT + blackout(it, 0.05, 0.2) + ONE_STAGE)
    (operation,) = it.operations()
    assert operation.state is OperationState.ANNOUNCED
    (event,) = it.vm("s0-0").get().events
    assert it.vm("s0-0").approve(event["EventId"]).status == 200
    (operation,) = it.operations()
    assert operation.state is OperationState.READY
    assert it.explain(operation.operation_id)[0].startswith("blackout year-end")
    it.advance("11m")
    assert not it.operations()[0].started_at
    it.advance("2m")
    assert it.operations()[0].started_at


def test_removed_blackout_lets_held_and_planned_hosts_continue_at_once() -> None:
    it = of(2)
    start(it, EXPECT + blackout(it, -1, 50) + ONE_STAGE)
    assert announced(it) == []
    change(it, remove_blackout="year-end")
    assert announced(it) != []
    assert campaign(it).blackouts == ()
    subject = f"campaign:{campaign(it).campaign_id}"
    changes = [
        each.facts.changes
        for each in it.read(
            lambda reader: list(every(reader, kinds.AUDIT_OF_SUBJECT, subject))
        )
        if each.kind is AuditKind.CAMPAIGN_CHANGED
    ]
    ((key, before, after),) = changes[0]
    assert (key, after) == ("blackouts", "none")
    assert before.startswith("year-end ")


def test_removed_blackout_starts_an_approved_host_at_once() -> None:
    it = of(1)
    it.vm("s0-0").get()
    start(it, EXPECT + blackout(it, 0.05, 0.2) + ONE_STAGE)
    (event,) = it.vm("s0-0").get().events
    it.vm("s0-0").approve(event["EventId"])
    assert not it.operations()[0].started_at
    change(it, remove_blackout="year-end")
    assert it.operations()[0].started_at


def test_wrong_changes_of_blackouts_are_refused() -> None:
    it = of(1)
    start(it, EXPECT + ONE_STAGE)
    with pytest.raises(BadRequestError, match="'soon' is not a blackout"):
        change(it, blackout="soon")
    with pytest.raises(BadRequestError, match="campaign bios has no blackout easter"):
        change(it, remove_blackout="easter")
    for number in range(50):
        change(it, blackout=f"b{number} mon 22:00 1h")
    change(it, blackout="b7 tue 22:00 1h")
    with pytest.raises(BadRequestError, match="at most 50 blackouts"):
        change(it, blackout="b50 mon 22:00 1h")


def test_blackout_that_would_leave_no_time_is_refused() -> None:
    it = of(2)
    hours = '[[campaign.window]]\nstart = "22:00"\nlength = "4h"\n'
    start(it, EXPECT + hours + ONE_STAGE)
    before = campaign(it)
    for line in ("always 00:00 24h", "nights 21:00 9h"):
        name = line.split()[0]
        with pytest.raises(
            RefusedError, match=f"with blackout {name}, no opening"
        ) as no:
            change(it, blackout=line)
        assert "campaign pause bios --reason TEXT" in no.value.hint
    assert campaign(it) == before
    change(it, blackout="first 21:30 2h")
    with pytest.raises(
        RefusedError, match="blackout second, beside blackout first, no"
    ):
        change(it, blackout="second 23:45 3h")
    # One with the same name replaces it.
    change(it, blackout="first 23:45 3h")
    run(it)
