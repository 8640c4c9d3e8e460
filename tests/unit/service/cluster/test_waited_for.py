"""The replicas that answers and calls of a leader wait for, on clocks that the test moves."""

import pytest

from forewarn.store.memory_cluster import MemoryLeaderStore, SharedMemory
from tests.support.replicas import Replica
from tests.unit.service.cluster.test_keeper import pair


@pytest.fixture
def shared() -> SharedMemory:
    return SharedMemory()


def approve(replica: Replica, store: MemoryLeaderStore) -> int:
    """Commit an approval in the term of `store`; return the place that its answer awaits."""
    term = replica.keeper.lease_state.term
    gate = replica.keeper.gate_of(term)
    gate.use(lambda: store.number)
    store.transact(lambda tx: tx.lock_safety_rows(["web"]))
    return gate.approved()


@pytest.mark.parametrize("is_released", [True, False])
def test_new_leader_waits_at_once_for_replicas_that_ran_before_its_term(
    shared: SharedMemory, is_released: bool
) -> None:
    """In its first second, no replica has written its row again."""
    first, second = pair(shared)
    third = Replica(shared, "c", first.clock)
    for replica in (first, third):
        replica.follower.turn()
    second.keeper.turn()
    if is_released:
        first.keeper.stop()
    for seconds in (1.0, 1.0, 1.0):
        first.clock.advance(0.0 if is_released else seconds)
        third.follower.turn()
        second.keeper.turn()
    assert second.terms == [2]
    place = approve(second, MemoryLeaderStore(shared, 2))
    second.clock.advance(0.1)
    second.keeper.turn()
    gate = second.keeper.gate
    assert not gate.is_read(place)
    third.follower.turn()
    second.keeper.turn()
    # The former leader is waited for if it may still serve VMs.
    assert gate.is_read(place) == (not is_released)
    second.clock.advance(2.0)
    second.keeper.turn()
    assert gate.is_read(place)


def test_answer_waits_for_a_new_replica_from_its_first_row(
    shared: SharedMemory,
) -> None:
    """It can serve a snapshot from before the approval already."""
    first, _ = pair(shared)
    first.clock.advance(3.0)
    first.keeper.turn()
    third = Replica(shared, "c", first.clock)
    third.follower.turn()
    place = approve(first, MemoryLeaderStore(shared, 1))
    first.clock.advance(0.1)
    first.keeper.turn()
    assert not first.keeper.gate.is_read(place)
    third.follower.turn()
    first.keeper.turn()
    assert first.keeper.gate.is_read(place)


def test_slow_answer_about_rows_shows_no_silence_of_a_replica(
    shared: SharedMemory,
) -> None:
    """The replica can have written its row since the leader asked."""
    first, second = pair(shared)
    second.follower.turn()
    first.keeper.turn()
    place = approve(first, MemoryLeaderStore(shared, 1))
    first.clock.advance(0.1)
    first.line.during = {"answer replicas": [2.5]}
    first.keeper.turn()
    assert not first.keeper.gate.is_read(place)
    first.keeper.turn()
    assert first.keeper.gate.is_read(place)


def test_calls_wait_for_a_former_leader_that_wrote_no_row_for_long(
    shared: SharedMemory,
) -> None:
    """It renewed its lease, so it answers VMs for a read lease after its last renewal."""
    first, second = pair(shared)
    first.follower.turn()
    for _ in range(12):
        first.clock.advance(1.0)
        first.keeper.turn()
        second.keeper.turn()
    first.clock.advance(3.0)
    second.keeper.turn()
    assert second.terms == [2]
    approve(second, MemoryLeaderStore(shared, 2))
    place = second.keeper.gate.place()
    assert first.answers(1)
    for _ in range(2):
        second.clock.advance(0.1)
        second.keeper.turn()
        assert not second.keeper.gate.is_open(place)
