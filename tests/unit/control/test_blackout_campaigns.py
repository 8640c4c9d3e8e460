"""Blackouts of the service stop campaigns too, at a cost that does not grow with hosts."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from forewarn.campaigns.lifecycle import CampaignState
from forewarn.control.requests import blackouts
from forewarn.control.rules.policy import Subscriber
from forewarn.control.transactions.messages import NOTICES
from forewarn.instants import MINUTE, format_instant, parse_instant
from forewarn.protocol.notes import WithdrawnForBlackout
from forewarn.protocol.operations import OperationState
from forewarn.reporting import held
from forewarn.reporting.notices import notice_report
from forewarn.store import kinds
from forewarn.store.memory import MemoryStore
from forewarn.store.notices import NoticeKind
from forewarn.store.port import Transaction, every
from forewarn.store.records import AuditKind
from forewarn.wording import notices
from tests.support.campaigns import (
    ONE_STAGE,
    announced,
    campaign,
    ended,
    start,
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

SIZE = 400
"""Hosts of a campaign of a user's size."""

pytestmark = pytest.mark.clause("4.2")


def of(hosts: int) -> World:
    return world_of([{f"s{number}": 0} for number in range(hosts)])


def put(world: World, begins: float, ends: float, *, name: str = "freeze") -> str:
    """Set a blackout of the fleet between two times in hours from now."""
    found = [
        format_instant((world.now + round(at * 60) * MINUTE) // 1_000_000 * 1_000_000)
        for at in (begins, ends)
    ]
    line = " ".join(instant.removesuffix("Z") for instant in found)
    world.order(
        lambda work: blackouts.set_blackout(work, name, line),
        actor="alice",
        reason="quiet",
    )
    world.settle()
    return found[1]


def test_campaign_announces_and_works_around_the_blackout() -> None:
    world = of(12)
    begins = world.now + 2 * 60 * MINUTE
    ends = parse_instant(put(world, 2, 10))
    start(world, EXPECT + ONE_STAGE)
    for _ in range(24 * 60):
        if campaign(world).state is CampaignState.DONE:
            break
        world.advance("1m")
    done = ended(world, OperationState.DONE)
    assert len(done) == 12
    for operation in done:
        # The slow time of the campaign fits before the blackout.
        assert (
            operation.started_at + 30 * MINUTE <= begins or operation.started_at >= ends
        )
    assert any(operation.started_at < begins for operation in done)
    assert any(operation.started_at > ends for operation in done)


def test_explain_show_and_waits_name_the_blackout_of_the_service() -> None:
    world = of(3)
    until = put(world, -1, 5)
    start(world, EXPECT + ONE_STAGE)
    why = f"blackout freeze forbids it until {until}"
    assert waits_for(world) == why
    assert world.explain(world.operations()[0].operation_id) == [why]
    (found,) = world.read(lambda reader: held.by_campaigns(reader, now=world.now))
    report = held.held_report(found)
    assert (report["kind"], report["campaign"], report["blackout"]) == (
        "blackout",
        "bios",
        "freeze",
    )
    assert report["hosts"] == 3


def test_announced_hosts_are_withdrawn_and_announced_after_the_blackout() -> None:
    world = of(6)
    start(world, EXPECT + ONE_STAGE)
    first = announced(world)
    assert first
    until = parse_instant(put(world, 0.1, 5))
    assert announced(world) == []
    assert campaign(world).withdrawn == len(first)
    notes = [operation.note for operation in ended(world, OperationState.CANCELLED)]
    assert all(isinstance(note, WithdrawnForBlackout) for note in notes)
    for _ in range(5 * 60):
        world.advance("1m")
        if announced(world):
            break
    assert announced(world)
    assert world.now >= until


def test_removing_the_blackout_lets_the_campaign_go_on_at_once() -> None:
    world = of(3)
    put(world, -1, 500)
    start(world, EXPECT + ONE_STAGE)
    assert announced(world) == []
    world.order(lambda work: blackouts.remove(work, "freeze"), reason="over")
    world.settle()
    assert announced(world)


def test_emergency_campaign_ignores_it_and_names_it_for_each_host() -> None:
    world = of(2)
    put(world, -1, 5)
    start(world, "emergency = true\n" + EXPECT + ONE_STAGE)
    assert announced(world)
    entries = world.read(lambda reader: list(every(reader, kinds.ALL_AUDIT)))
    named = [entry for entry in entries if entry.kind is AuditKind.BLACKOUTS_IGNORED]
    assert f"host:{announced(world)[0]}" in named[0].subjects


@pytest.mark.parametrize("hosts", [SIZE // 10, SIZE])
def test_blackout_of_a_large_campaign_takes_few_transactions(
    hosts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cost of a blackout is that of the announced hosts, not of those that wait."""
    counted = Counter[str]()
    transact = MemoryStore.transact

    def counting(store: MemoryStore, work: Callable[[Transaction], Any]) -> Any:
        counted["transactions"] += 1
        return transact(store, work)

    world = of(hosts)
    start(world, EXPECT + ONE_STAGE)
    before = {operation.operation_id: operation for operation in world.operations()}
    monkeypatch.setattr(MemoryStore, "transact", counting)
    put(world, 0.1, 5)
    # The setting, two pages, a step for each withdrawn host, and its turn.
    assert counted["transactions"] <= 20
    changed = [
        operation
        for operation in world.operations()
        if before.get(operation.operation_id) != operation
    ]
    assert len(changed) <= 2 * 4
    counted.clear()
    for _ in range(8):
        world.advance("30m")
    # While it lasts, the campaign sleeps until its timer.
    assert counted["transactions"] <= 4


def test_receivers_of_operators_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    world = of(1)
    ops = Subscriber(name="ops", changes=frozenset(), notices=frozenset(NoticeKind))
    world.plane.policy = replace(world.plane.policy, subscribers=(ops,))
    put(world, -1, 5)
    world.order(
        lambda work: blackouts.remove(work, "freeze"), actor="bob", reason="over"
    )
    messages = world.read(
        lambda reader: list(every(reader, kinds.OUTBOX_OF_RECEIVER, "ops"))
    )
    told = [message.notice for message in messages if message.notice is not None]
    assert [notices.title(notice) for notice in told] == [
        "blackout freeze is set",
        "blackout freeze was removed",
    ]
    assert notices.sentence(told[0]).startswith(
        "By alice: quiet. No planned work begins in it: freeze "
    )
    assert notices.sentence(told[1]) == (
        "By bob: over. Planned work that it held continues."
    )
    assert notice_report(told[0])["blackout"] == "freeze"
    assert set(NOTICES.values()) == set(NoticeKind)
