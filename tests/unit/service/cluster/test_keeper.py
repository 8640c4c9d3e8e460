"""The keeper takes, keeps and loses the lease, on clocks that the test moves."""

import threading
from dataclasses import replace

import pytest

from forewarn.cluster.port import ReplicaRow, Role
from forewarn.cluster.times import Times
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
    assert first.keeper.gate.may_act()
    assert not second.keeper.gate.may_act()
    assert first.answers(1)
    assert not second.answers(0)


def test_candidate_takes_the_lease_of_a_leader_that_ended(shared: SharedMemory) -> None:
    first, second = pair(shared)
    first.clock.advance(2.85)
    assert second.keeper.turn() == pytest.approx(0.15)
    first.clock.advance(0.15)
    second.keeper.turn()
    assert second.terms == [2]
    assert second.keeper.gate.may_act()
    assert not first.keeper.gate.may_act()


def test_candidate_with_a_shorter_lease_waits_for_that_of_the_leader(
    shared: SharedMemory,
) -> None:
    """As while the setting is changed on one replica after the other."""
    first = Replica(shared, "a", times=Times(lease=10.0))
    second = Replica(shared, "b", first.clock, Times(lease=2.4))
    first.keeper.turn()
    second.keeper.turn()
    first.clock.advance(8.9)
    second.keeper.turn()
    assert first.keeper.gate.may_act()
    assert second.terms == []
    first.clock.advance(1.1)
    second.keeper.turn()
    assert second.terms == [2]


def test_candidate_takes_the_lease_soon_after_it_has_run_out(
    shared: SharedMemory,
) -> None:
    """It looks so often that it sees the last renewal soon, and wakes when it may."""
    first, second = pair(shared)
    clock = first.clock
    clock.advance(0.05)
    pause = second.keeper.turn()
    first.keeper._renew(first.keeper.lease_state)
    renewed = clock.monotonic()
    while not second.terms:
        clock.advance(pause)
        pause = second.keeper.turn()
    assert clock.monotonic() - renewed < TIMES.lease + TIMES.look_every + SOON_SECONDS


def test_paused_leader_finds_out_that_its_term_has_ended(shared: SharedMemory) -> None:
    first, second = pair(shared)
    store = MemoryLeaderStore(shared, 1)
    first.clock.advance(60.0)
    assert first.keeper.lease_state.role is Role.UNSURE
    second.keeper.turn()
    with pytest.raises(NotLeaderError):
        store.transact(lambda tx: tx.lock_safety_rows(["web"]))
    first.keeper.turn()
    assert first.terms == [1, 0]
    assert first.keeper.lease_state.role is Role.FOLLOWS


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
    assert first.keeper.gate.may_act()
    first.clock.advance(1.7)
    first.keeper.turn()
    assert not first.keeper.gate.may_act()
    assert len(caplog.records) == 1
    first.line.fails_at = ""
    first.keeper.turn()
    assert first.keeper.gate.may_act()
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
    assert first.keeper.lease_state.role is Role.UNSURE
    first.keeper.turn()
    assert first.keeper.gate.may_act()


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
    assert second.keeper.lease_state.role is Role.BEHIND
    assert len(caplog.records) == 1


def lose_last(shared: SharedMemory, first: Replica, second: Replica) -> None:
    """Let the first replica lead, commit, and be followed; the database loses the commit."""
    store = MemoryLeaderStore(shared, 1)
    first.keeper.gate_of(1).use(lambda: store.number)
    first.follower.lead()
    before = shared.lease
    store.transact(lambda tx: tx.lock_safety_rows(["web"]))
    second.follower.turn()
    shared.lease = before


def test_leader_notices_that_the_database_lost_its_own_transaction(
    shared: SharedMemory,
) -> None:
    """Its last renewal is older than the transaction."""
    first, second = pair(shared)
    lose_last(shared, first, second)
    first.clock.advance(1.0)
    first.keeper.turn()
    assert first.keeper.lease_state.role is Role.BEHIND
    assert first.terms == [1, 0]
    assert not first.keeper.gate.may_act()


def test_leader_notices_that_another_replica_has_seen_more_than_the_database(
    shared: SharedMemory,
) -> None:
    """It took the lease of the database that had lost transactions already."""
    first, second = pair(shared)
    lose_last(shared, first, second)
    third = Replica(shared, "c", first.clock)
    third.keeper.turn()
    first.clock.advance(3.0)
    for _ in range(2):
        third.keeper.turn()
        second.follower.turn()
        first.clock.advance(1.0)
    third.keeper.turn()
    assert third.terms == [2, 0]
    assert third.keeper.lease_state.role is Role.BEHIND


def test_replica_that_is_started_again_remembers_what_it_has_seen(
    shared: SharedMemory,
) -> None:
    """Both of them: one has committed it, and the other one has served it."""
    first, second = pair(shared)
    lose_last(shared, first, second)
    for replica in (first, second):
        replica.follower.stop()
        again = Replica(shared, "c", replica.clock, remembered=replica.remembered)
        again.clock.advance(3.0)
        again.follower.turn()
        for _ in range(2):
            again.keeper.turn()
            again.clock.advance(3.0)
        assert again.terms == []
        assert again.keeper.lease_state.role is Role.BEHIND
        assert not again.answers(0)


def test_row_of_a_replica_that_ended_says_nothing_about_the_database(
    shared: SharedMemory,
) -> None:
    """All replicas were started again after the database was restored."""
    first, second = pair(shared)
    lose_last(shared, first, second)
    third = Replica(shared, "c", first.clock)
    third.keeper.turn()
    first.clock.advance(3.0)
    for _ in range(12):
        third.keeper.turn()
        first.clock.advance(1.0)
    assert (third.terms, third.keeper.lease_state.role) == ([2], Role.LEADS)
    assert shared.replicas == {}


@pytest.mark.parametrize("is_known_first", [True, False])
def test_leader_that_was_refused_does_not_follow_a_database_that_lost_transactions(
    shared: SharedMemory, is_known_first: bool
) -> None:
    """The number of its last transaction shows it, not its documents as a follower."""
    first, second = pair(shared)
    lose_last(shared, first, second)
    first.keeper.lost(1)
    if is_known_first:
        first.keeper.turn()
    first.follower.follow()
    first.clock.advance(1.0)
    first.follower.turn()
    first.clock.advance(4.0)
    assert not first.answers(0)
    for _ in range(2):
        first.keeper.turn()
    assert first.keeper.lease_state.role is Role.BEHIND
    assert first.terms == [1, 0]


def test_replica_of_an_old_version_does_not_lead_and_says_so_once(
    shared: SharedMemory, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = pair(shared)
    second.line.fails_at = "send take"
    second.line.error = StoreTooNewError("a newer forewarn has changed the tables")
    for _ in range(2):
        second.clock.advance(3.0)
        assert second.keeper.turn() == pytest.approx(1.0)
    assert (second.terms, second.keeper.lease_state.role) == ([], Role.FOLLOWS)
    [message] = caplog.messages
    assert message.startswith("this replica cannot lead: a newer forewarn")
    first.keeper.turn()
    assert first.keeper.gate.may_act()


def test_released_lease_is_taken_at_once(shared: SharedMemory) -> None:
    first, second = pair(shared)
    first.keeper.stop()
    assert first.keeper.lease_state.role is Role.STOPPED
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


def test_answers_wait_only_for_replicas_that_give_signs_of_life(
    shared: SharedMemory,
) -> None:
    first, second = pair(shared)
    # It has ended before the first one leads.
    MemoryCluster(shared).write_replica(
        ReplicaRow(key="c", name="c", url="", position=0)
    )
    store = MemoryLeaderStore(shared, 1)
    gate = first.keeper.gate_of(1)
    gate.use(lambda: store.number)
    for _ in range(2):
        second.follower.turn()
        first.keeper.turn()
        first.clock.advance(1.0)
    store.transact(lambda tx: tx.lock_safety_rows(["web"]))
    place = gate.approved()
    assert place == 1
    first.clock.advance(0.1)
    first.keeper.turn()
    assert gate.waits
    assert not gate.is_read(place)
    opened = first.opened
    second.follower.turn()
    first.keeper.turn()
    assert gate.is_read(place)
    assert not gate.waits
    assert first.opened == opened + 1
    # The second one ends now, and gives no sign for two of its periods.
    store.transact(lambda tx: tx.lock_safety_rows(["web"]))
    place = gate.approved()
    for seconds in (1.0, 0.9):
        first.clock.advance(seconds)
        first.keeper.turn()
        assert not gate.is_read(place)
    first.clock.advance(0.2)
    first.keeper.turn()
    assert gate.is_read(place)
    gate.approved()
    gate.forget(place)
    assert gate.is_read(place)


def test_calls_begin_without_a_replica_that_ended(shared: SharedMemory) -> None:
    first, second = pair(shared)
    second.follower.turn()
    shared.lease = replace(shared.lease, number=5)
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


def test_replica_whose_row_was_removed_and_came_again_is_waited_for(
    shared: SharedMemory,
) -> None:
    """Its new row must not look like the old one, which was silent for long."""
    first, _ = pair(shared)
    other, row = (
        MemoryCluster(shared),
        ReplicaRow(key="c", name="c", url="", position=0),
    )
    for _ in range(3):
        other.write_replica(row)
    for _ in range(9):
        first.keeper.turn()
        first.clock.advance(1.0)
    (seen,) = other.replicas()
    assert other.remove_replica(seen)
    for _ in range(3):
        other.write_replica(row)
    MemoryLeaderStore(shared, 1).transact(lambda tx: tx.lock_safety_rows(["web"]))
    gate = first.keeper.gate_of(1)
    gate.use(lambda: 1)
    place = gate.place()
    for _ in range(5):
        first.keeper.turn()
        first.clock.advance(1.0)
        assert not gate.is_open(place)
    assert list(shared.replicas) == ["c"]


def test_calls_of_an_ended_term_never_begin(shared: SharedMemory) -> None:
    first, second = pair(shared)
    second.follower.turn()
    first.clock.advance(3.0)
    second.keeper.turn()
    first.keeper.turn()
    assert first.terms == [1, 0]
    assert not first.keeper.gate.is_open(0)
    assert not first.keeper.gate.is_open(7)


def test_calls_of_an_ended_term_never_begin_when_the_replica_leads_again(
    shared: SharedMemory,
) -> None:
    """The replica was paused, another one has led meanwhile, and the old plane lives on."""
    first, second = pair(shared)
    second.follower.turn()
    old = first.keeper.gate_of(1)
    place = old.place()
    first.clock.advance(3.0)
    second.keeper.turn()
    second.keeper.stop()
    first.keeper.turn()
    first.keeper.turn()
    assert first.terms == [1, 0, 3]
    with pytest.raises(NotLeaderError):
        first.keeper.gate_of(1)
    new = first.keeper.gate_of(3)
    for _ in range(6):
        first.clock.advance(1.0)
        first.keeper.turn()
        assert new.may_act()
        assert not old.may_act()
        assert not old.is_open(place)
    assert new.is_open(new.place())


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
        thread for thread in threading.enumerate() if thread.name == "forewarn-keeper"
    ]
