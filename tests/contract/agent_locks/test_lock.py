"""The behavior that every kind of lock shares, checked in its store."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.agent.handlers.run_context import RunContext, context_for
from forewarn.agent.locks.port import LockError
from forewarn.clock import SystemClock
from forewarn.instants import HOUR
from forewarn.protocol.errors import ForewarnError
from tests.support.lock_benches import EXPIRING, KINDS, Bench, bench_of, lock_of

pytestmark = pytest.mark.slow


def context(seconds: float = 30.0) -> RunContext:
    return context_for(seconds, SystemClock())


@pytest.fixture(params=KINDS)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    with bench_of(request.param, tmp_path) as lock_bench:
        yield lock_bench


@pytest.fixture(params=EXPIRING)
def expiring(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    with bench_of(request.param, tmp_path) as lock_bench:
        yield lock_bench


def test_free_lock_is_acquired_and_released(bench: Bench) -> None:
    lock = lock_of(bench)
    assert bench.holders() == set()
    assert lock.take("web_0", context()).is_held
    assert bench.holders() == {"web_0"}
    lock.release("web_0", context())
    assert bench.holders() == set()


def test_acquire_and_release_are_idempotent(bench: Bench) -> None:
    lock = lock_of(bench)
    lock.release("web_0", context())
    for _ in range(2):
        assert lock.take("web_0", context()).is_held
        assert bench.holders() == {"web_0"}
    for _ in range(2):
        lock.release("web_0", context())
        assert bench.holders() == set()


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_lock_has_as_many_holders_as_slots(bench: Bench, slots: int) -> None:
    names = [f"web_{number}" for number in range(slots + 1)]
    locks = {name: lock_of(bench, holders=slots) for name in names}
    for name in names[:-1]:
        assert locks[name].take(name, context()).is_held
    refused = locks[names[-1]].take(names[-1], context())
    assert not refused.is_held
    assert refused.detail
    assert bench.holders() == set(names[:-1])
    # A holder is confirmed, even if many others hold it too.
    assert locks[names[0]].take(names[0], context()).is_held
    locks[names[0]].release(names[0], context())
    assert locks[names[-1]].take(names[-1], context()).is_held
    assert bench.holders() == set(names[1:])


def test_release_by_another_vm_keeps_the_lock(bench: Bench) -> None:
    lock = lock_of(bench)
    lock.take("web_0", context())
    lock.release("web_1", context())
    assert bench.holders() == {"web_0"}


def test_each_group_is_a_separate_lock(bench: Bench) -> None:
    first, second = lock_of(bench), lock_of(bench, "db")
    assert first.take("web_0", context()).is_held
    assert second.take("web_0", context()).is_held
    first.release("web_0", context())
    assert (bench.holders(), bench.holders("db")) == (set(), {"web_0"})


def test_agent_with_the_same_id_shares_the_slot(bench: Bench) -> None:
    """After a crash, the next agent does not know what was requested."""
    assert lock_of(bench).take("web_0", context()).is_held
    assert lock_of(bench).take("web_0", context()).is_held
    lock_of(bench).release("web_0", context())
    assert bench.holders() == set()


@pytest.mark.parametrize("name", ["wéb_0", "web 0", 'we"b', "a" * 200, "web_0/x"])
def test_holder_can_have_any_name(bench: Bench, name: str) -> None:
    lock = lock_of(bench)
    assert lock.take(name, context()).is_held
    assert bench.holders() == {name}
    lock.release(name, context())
    assert bench.holders() == set()


@pytest.mark.parametrize("slots", [1, 3])
def test_concurrent_holders_never_exceed_the_slots(bench: Bench, slots: int) -> None:
    """Each takes it, looks who has it, and gives it back, again and again."""
    names = [f"web_{number}" for number in range(8)]
    locks = {name: lock_of(bench, holders=slots) for name in names}
    had: dict[str, int] = dict.fromkeys(names, 0)
    holders_seen: list[set[str]] = []
    wrong: list[str] = []
    begin = threading.Barrier(len(names))

    def live(name: str) -> None:
        begin.wait()
        while had[name] < 3:
            if not locks[name].take(name, context()).is_held:
                continue
            holders = bench.holders()
            holders_seen.append(holders)
            if name not in holders:
                wrong.append(f"{name} was granted the lock, but {holders} have it")
            had[name] += 1
            while True:
                try:
                    locks[name].release(name, context())
                    break
                except LockError:
                    # Others were faster too often: it is given back again.
                    pass

    threads = [threading.Thread(target=live, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(240)
    assert wrong == []
    assert all(count == 3 for count in had.values())
    assert max(len(holders) for holders in holders_seen) <= slots
    assert bench.holders() == set()


def test_lock_is_kept_while_its_backend_is_unavailable(bench: Bench) -> None:
    lock = lock_of(bench)
    assert lock.take("web_0", context()).is_held
    with bench.away():
        for ask in (lock.take, lock.release):
            with pytest.raises(ForewarnError) as refused:
                ask("web_0", context(3))
            assert refused.value.message
        with pytest.raises(ForewarnError):
            lock.describe(context(3))
    assert bench.holders() == {"web_0"}
    lock.release("web_0", context())
    assert bench.holders() == set()


def test_look_does_not_change_the_lock(bench: Bench) -> None:
    lock = lock_of(bench)
    assert lock.describe(context())
    lock.take("web_0", context())
    message = lock.describe(context())
    assert bench.holders() == {"web_0"}
    assert "web_0" in message or "FleetLock does not show" in message


# Those that expire


def test_grant_states_the_expiry_time(expiring: Bench) -> None:
    before = SystemClock().now()
    grant = lock_of(expiring).take("web_0", context())
    assert before + HOUR <= grant.until <= SystemClock().now() + HOUR


def test_slot_of_a_silent_holder_expires(expiring: Bench) -> None:
    lost, other = lock_of(expiring), lock_of(expiring)
    assert lost.take("web_0", context()).is_held
    assert not other.take("web_1", context()).is_held
    expiring.let_expire()
    assert expiring.holders() == set()
    assert lost.describe(context()) == "the lock is free"
    assert other.take("web_1", context()).is_held
    # The first comes back, and hears that it does not have it any longer.
    refused = lost.take("web_0", context())
    assert not refused.is_held
    assert refused.detail.startswith("held by web_1 since ")
    lost.release("web_0", context())
    assert expiring.holders() == {"web_1"}


def test_expired_holder_takes_a_free_lock_again(
    expiring: Bench,
) -> None:
    lock = lock_of(expiring)
    lock.take("web_0", context())
    expiring.let_expire()
    assert lock.take("web_0", context()).is_held
    assert expiring.holders() == {"web_0"}


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "null",
        '{"holders": []}',
        '{"holders": {"web_1": {}}}',
        '{"holders": {"web_1": {"since": "yesterday", "until": "soon"}}}',
        "[" * 20_000,
        "x" * 300_000,
    ],
)
def test_unreadable_holder_list_grants_no_lock(expiring: Bench, text: str) -> None:
    lock = lock_of(expiring)
    lock.take("web_1", context())
    expiring.damage(text)
    for ask in (lock.take, lock.release):
        with pytest.raises(LockError, match="cannot read the list of holders"):
            ask("web_0", context())


def test_empty_holder_list_means_a_free_lock(expiring: Bench) -> None:
    lock = lock_of(expiring)
    lock.take("web_1", context())
    expiring.damage('{"holders": {}}')
    assert lock.take("web_0", context()).is_held


def test_fewer_slots_evict_no_holder(expiring: Bench) -> None:
    for name in ("web_0", "web_1", "web_2"):
        assert lock_of(expiring, holders=3).take(name, context()).is_held
    lock = lock_of(expiring, holders=1)
    assert lock.take("web_0", context()).is_held
    refused = lock.take("web_3", context())
    assert not refused.is_held
    assert "web_0 since " in refused.detail
