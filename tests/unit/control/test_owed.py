"""What follows from an order is done, whatever comes in between."""

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import TypeVar

import pytest

from forewarn.control.requests import followups, verbs
from forewarn.control.requests.approvals import Approval
from forewarn.control.requests.followups import FollowUps
from forewarn.control.requests.rollouts import PAGE
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.rules.waking import Freed
from forewarn.control.transactions.work import Effects
from forewarn.instants import SECOND
from forewarn.protocol.operations import Action, OperationState
from forewarn.store.memory import MemoryStore
from forewarn.store.port import ConflictError, Transaction
from tests.support.rollouts import DONE, name_of, of_host, roll_out, states, world_of
from tests.support.worlds import World

T = TypeVar("T")

HOSTS = PAGE + 5


class HeldStore(MemoryStore):
    """A store that another program can hold for a while."""

    left: int | None = None
    """Transactions until it is held; None: it never is."""
    refused = 0

    def transact(self, work: Callable[[Transaction], T]) -> T:
        if self.left is not None:
            if not self.left:
                self.refused += 1
                raise ConflictError("the store is held")
            self.left -= 1
        return super().transact(work)

    @contextmanager
    def held_after(self, transactions: int) -> Generator[None]:
        self.left = transactions
        yield
        self.left = None


def held_world() -> tuple[World, HeldStore]:
    store = HeldStore()
    return world_of(
        [{f"a{number}": 0} for number in range(HOSTS)], store=lambda: store
    ), store


def test_step_is_retried_after_the_store_was_locked() -> None:
    """Whichever step it is: at each the store is held once."""
    it, store = held_world()
    it.plane.bound_turns(lambda: True)
    it.order(lambda work: verbs.maintain(work, names_of(HOSTS), Action.FREEZE, AT_ONCE))
    for _ in range(100 * HOSTS):
        due = it.plane.next_due()
        if due is None:
            break
        it.clock.advance_to(max(due, it.now))
        with store.held_after(0), suppress(ConflictError):
            it.plane.advance(now=it.now)
        it.plane.advance(now=it.now)
    assert set(states(it).values()) == {DONE}
    assert store.refused > HOSTS


def names_of(count: int) -> list[str]:
    return [name_of(number) for number in range(count)]


AT_ONCE = OrderOptions(at_once=3)


def test_committed_request_is_not_reported_as_failed() -> None:
    it, store = held_world()
    with store.held_after(1):
        it.order(
            lambda work: verbs.maintain(work, names_of(HOSTS), Action.FREEZE, AT_ONCE)
        )
    assert store.refused
    assert len(states(it)) == PAGE
    it.settle()
    assert len(states(it)) == HOSTS


def test_due_work_does_not_wait_for_all_follow_up_work() -> None:
    """Approvals come in every turn, and each of them has something follow."""
    count = 100
    world = world_of([{f"a{number}": 0} for number in range(count)])
    for number in range(count):
        world.vm(f"a{number}-{number}").get()
    roll_out(world, 1)
    world.advance("10m")
    for number in range(1, count):
        name = name_of(number)
        world.order(
            lambda work, name=name: verbs.maintain(work, [name], Action.FREEZE, AT_ONCE)
        )
    world.settle()
    world.advance("4m50s")
    events = {event.resources[0].vm: event.event_id for event in world.live_events()}
    world.plane.bound_turns(lambda: True)
    first = of_host(world, 0)
    for number in range(1, count):
        vm = f"a{number}-{number}"
        world.plane.approve([Approval(vm=vm, event_ids=(events[vm],))], now=world.now)
        world.clock.advance_to(world.now + SECOND)
        world.plane.advance(now=world.now)
        if world.now > first.not_before + 3 * SECOND:
            assert of_host(world, 0).state is not OperationState.ANNOUNCED
    assert world.now > first.not_before + 30 * SECOND, "the story is long enough"


def test_name_that_is_freed_again_keeps_its_queue_position(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else those behind it would never be looked at."""
    looked: list[str] = []

    def wake(_self: FollowUps, freed: Freed, _now: int) -> bool:
        looked.append(freed.name)
        return True

    monkeypatch.setattr(FollowUps, "_wake", wake)
    monkeypatch.setattr(followups, "next_waiter", lambda *_: "op-1")
    owed = FollowUps(MemoryStore(), lambda *_: None, lambda *_: 1)
    names = ("scope:a", "vm:x", "room")
    for _turn in range(30):
        owed.take(Effects(freed=dict.fromkeys(names)))
        owed.take_one(0)
    found = Counter(looked)
    assert min(found[name] for name in names) >= len(looked) // len(names) - 1
