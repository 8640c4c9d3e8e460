"""The keeper takes, keeps and loses the lease, on clocks that the test moves."""

import threading

import pytest

from forewarn.cluster.port import ReplicaRow, Role
from forewarn.service.cluster.keeper import SOON_SECONDS
from forewarn.store.memory_cluster import MemoryCluster, MemoryLeaderStore, SharedMemory
from forewarn.store.port import NotLeaderError, StoreTooNewError
from tests.support.processes import eventually
from tests.support.replicas import TIMES, HandClock, Replica


@pytest.fixture
def shared() -> SharedMemory:
    return SharedMemory()


def pair(shared: SharedMemory) -> tuple[Replica, Replica]:
    """Return two replicas, of which the first leads and the second has seen it."""
    clock = HandClock()
    first, second = Replica(shared, "a", clock), Replica(shared, "b", clock)
    first.keeper.turn()
    second.keeper.turn()
    assert (first.terms, second.terms) == ([1], [])
    return first, second


def test_leader_renews_and_others_watch(shared: SharedMemory) -> None:
    first, second = pair(shared)
    for _ in range(10):
        first.clock.advance(1.0)
        first.keeper.turn()
        second.keeper.turn()
    assert (first.terms, second.terms) == ([1], [])
    assert first.keeper.may_call()
    assert not second.keeper.may_call()
    assert first.keeper.may_answer()
    assert not second.keeper.may_answer()


def test_candidate_takes_the_lease_of_a_leader_that_ended(shared: SharedMemory) -> None:
    first, second = pair(shared)
    first.clock.advance(2.85)
    assert second.keeper.turn() == pytest.approx(0.15)
    first.clock.advance(0.15)
    second.keeper.turn()
    assert second.terms == [2]
    assert second.keeper.may_call()
    assert second.keeper.gate.may_act()
    assert not first.keeper.may_call()
    assert not first.keeper.gate.may_act()


def test_candidate_takes_the_lease_soon_after_it_has_run_out(
    shared: SharedMemory,
) -> None:
    """It looks so often that it sees the last renewal soon, and wakes when it may."""
    first, second = pair(shared)
    clock = first.clock
    clock.advance(0.05)
    pause = second.keeper.turn()
    first.keeper._renew(first.keeper.seat)
    renewed = clock.monotonic()
    while not second.terms:
        clock.advance(pause)
        pause = second.keeper.turn()
    assert clock.monotonic() - renewed < TIMES.lease + TIMES.look_every + SOON_SECONDS


def test_paused_leader_finds_out_that_its_term_has_ended(shared: SharedMemory) -> None:
    first, second = pair(shared)
    store = MemoryLeaderStore(shared, 1)
    first.clock.advance(60.0)
    assert first.keeper.seat.role is Role.UNSURE
    second.keeper.turn()
    with pytest.raises(NotLeaderError):
        store.transact(lambda tx: tx.lock_safety_rows(["web"]))
    first.keeper.turn()
    assert first.terms == [1, 0]
    assert first.keeper.seat.role is Role.FOLLOWS


def test_refused_transaction_ends_the_term_at_once(shared: SharedMemory) -> None:
    first, second = pair(shared)
    first.clock.advance(3.0)
    second.keeper.turn()
    first.keeper.lost(1)
    first.keeper.turn()
    assert first.terms == [1, 0]


def test_leader_is_unsure_while_the_database_is_away(
    shared: SharedMemory, caplog: pytest.LogCaptureFixture
) -> None:
    first, _ = pair(shared)
    first.line.fails_at = "send"
    first.clock.advance(1.0)
    assert first.keeper.turn() == pytest.approx(0.2)
    assert first.keeper.may_call()
    first.clock.advance(1.7)
    first.keeper.turn()
    assert not first.keeper.may_call()
    assert len(caplog.records) == 1
    first.line.fails_at = ""
    first.keeper.turn()
    assert first.keeper.may_call()
    assert first.terms == [1]


def test_end_of_a_term_is_no_answer_of_the_database(
    shared: SharedMemory, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    first, _ = pair(shared)
    first.line.fails_at = "send"
    first.clock.advance(1.0)
    first.keeper.turn()
    first.keeper.lost(1)
    first.keeper.turn()
    assert first.terms == [1, 0]
    assert "answers again" not in caplog.text
    first.line.fails_at = ""
    first.keeper.turn()
    assert "answers again" in caplog.text


def test_slow_answer_extends_nothing_beyond_its_question(shared: SharedMemory) -> None:
    first, _ = pair(shared)
    first.clock.advance(1.0)
    first.line.during = {"send renew": [1.5], "answer renew": [1.5]}
    first.keeper.turn()
    assert first.keeper.seat.role is Role.UNSURE
    first.keeper.turn()
    assert first.keeper.may_call()


def test_lost_answer_to_a_takeover_leads_nobody(shared: SharedMemory) -> None:
    first, second = pair(shared)
    first.clock.advance(3.0)
    second.line.fails_at = "answer take"
    second.keeper.turn()
    assert second.terms == []
    second.line.fails_at = ""
    second.keeper.turn()
    assert second.terms == []
    first.clock.advance(3.0)
    second.keeper.turn()
    assert second.terms == [3]


def test_replica_does_not_lead_a_database_that_lost_transactions(
    shared: SharedMemory, caplog: pytest.LogCaptureFixture
) -> None:
    _, second = pair(shared)
    store = MemoryLeaderStore(shared, 1)
    before = shared.lease
    store.transact(lambda tx: tx.lock_safety_rows(["web"]))
    second.follower.turn()
    shared.lease = before
    second.clock.advance(3.0)
    second.keeper.turn()
    second.clock.advance(3.0)
    second.keeper.turn()
    assert second.terms == []
    assert second.keeper.seat.role is Role.BEHIND
    assert len(caplog.records) == 1


def test_replica_of_an_old_version_does_not_lead_and_says_so_once(
    shared: SharedMemory, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = pair(shared)
    second.line.fails_at = "send take"
    second.line.error = StoreTooNewError("a newer forewarn has changed the tables")
    for _ in range(2):
        second.clock.advance(3.0)
        assert second.keeper.turn() == pytest.approx(1.0)
    assert (second.terms, second.keeper.seat.role) == ([], Role.FOLLOWS)
    [message] = caplog.messages
    assert message.startswith("this replica cannot lead: a newer forewarn")
    first.keeper.turn()
    assert first.keeper.may_call()


def test_released_lease_is_taken_at_once(shared: SharedMemory) -> None:
    first, second = pair(shared)
    first.keeper.stop()
    assert first.keeper.seat.role is Role.STOPPED
    second.keeper.turn()
    assert second.terms == [2]


def test_leader_removes_silent_replicas_and_old_feed(shared: SharedMemory) -> None:
    first, _ = pair(shared)
    other = MemoryCluster(shared)
    other.write_replica(ReplicaRow(key="c", name="c", url="", position=0))
    MemoryLeaderStore(shared, 1).transact(lambda tx: tx.lock_safety_rows(["web"]))
    for _ in range(10):
        first.keeper.turn()
        assert len(shared.replicas) == 1
        first.clock.advance(1.0)
    first.keeper.turn()
    assert shared.replicas == {}
    for _ in range(10):
        first.clock.advance(1.0)
        first.keeper.turn()
    assert shared.floor == 1


def test_calls_wait_for_the_replicas_that_are_behind(shared: SharedMemory) -> None:
    first, second = pair(shared)
    first.keeper.gate.use(lambda: store.number)
    store = MemoryLeaderStore(shared, 1)
    second.follower.turn()
    first.keeper.turn()
    store.transact(lambda tx: tx.lock_safety_rows(["web"]))
    place = first.keeper.gate.place()
    first.clock.advance(0.1)
    first.keeper.turn()
    assert not first.keeper.gate.is_open(place)
    wait = first.keeper.gate.why_wait(place)
    assert wait is not None
    assert wait.replicas == ("b",)
    assert first.keeper.gate.waits
    opened = first.opened
    second.follower.turn()
    first.keeper.turn()
    assert first.keeper.gate.is_open(place)
    assert first.opened == opened + 1
    first.keeper.turn()
    assert first.opened == opened + 1


def test_calls_begin_without_a_replica_that_ended(shared: SharedMemory) -> None:
    first, second = pair(shared)
    second.follower.turn()
    first.keeper.gate.use(lambda: 5)
    place = first.keeper.gate.place()
    assert first.keeper.gate.until == pytest.approx(first.clock.at + 5.5)
    for _ in range(5):
        first.clock.advance(1.0)
        first.keeper.turn()
        assert not first.keeper.gate.is_open(place)
    first.clock.advance(0.5)
    opened = first.opened
    first.keeper.turn()
    assert first.opened == opened + 1
    assert first.keeper.gate.is_open(place)
    # It is closed while the lease may have ended.
    first.clock.advance(3.0)
    assert not first.keeper.gate.is_open(place)


def test_calls_of_an_ended_term_never_begin(shared: SharedMemory) -> None:
    first, second = pair(shared)
    second.follower.turn()
    first.clock.advance(3.0)
    second.keeper.turn()
    first.keeper.turn()
    assert first.terms == [1, 0]
    assert not first.keeper.gate.is_open(0)
    assert not first.keeper.gate.is_open(7)


def test_threads_hand_the_lease_over(shared: SharedMemory) -> None:
    first, second = Replica(shared, "a"), Replica(shared, "b")
    first.keeper.start()
    eventually(lambda: first.terms, bool, what="the first leader")
    second.keeper.start()
    first.keeper.stop()
    second.keeper.wake()
    eventually(lambda: second.terms, bool, what="the second leader")
    second.keeper.stop()
    assert shared.lease.holder == ""
    assert not [
        each for each in threading.enumerate() if each.name == "forewarn-keeper"
    ]
