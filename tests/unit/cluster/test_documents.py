"""How long a replica may answer, and how far the feed goes back."""

from dataclasses import replace

from forewarn.cluster import documents
from forewarn.cluster.documents import Reading
from forewarn.cluster.lease import Seat
from forewarn.cluster.port import ReplicaRow, Role
from forewarn.cluster.times import CLOCK_ERROR, FEED_KEPT, READ_LEASE, Times


def replica(position: int, key: str = "b") -> ReplicaRow:
    return ReplicaRow(key=key, name=key, url="", position=position)


def test_read_lease_counts_from_before_the_write_of_the_row() -> None:
    reading = documents.wrote(Reading(), asked=100.0)
    assert not documents.may_answer(reading, 100.0)
    reading = documents.published(reading, 7)
    assert reading.position == 7
    assert documents.may_answer(reading, 104.9)
    assert not documents.may_answer(reading, 105.0)


def test_without_a_row_there_is_no_read_lease() -> None:
    reading = documents.published(Reading(), 7)
    assert reading.position == 7
    assert not documents.may_answer(reading, 0.0)


def test_older_snapshot_extends_nothing() -> None:
    reading = documents.published(documents.wrote(Reading(), asked=100.0), 7)
    again = documents.wrote(reading, asked=104.0)
    assert documents.published(again, 6) is again
    assert not documents.may_answer(again, 105.0)
    assert documents.may_answer(documents.published(again, 7), 105.0)


def test_leader_answers_for_a_read_lease_after_its_renewal() -> None:
    seat = Seat(role=Role.LEADS, term=1, renewed=10.0, until=12.7)
    assert documents.leader_may_answer(seat, 14.9)
    assert not documents.leader_may_answer(seat, 15.0)
    assert documents.leader_may_answer(replace(seat, role=Role.UNSURE), 14.9)
    assert not documents.leader_may_answer(replace(seat, role=Role.FOLLOWS), 11.0)


def test_feed_is_kept_for_the_slowest_replica_up_to_a_bound() -> None:
    assert documents.prune_to([], 50) == 50
    assert documents.prune_to([replica(40), replica(30)], 50) == 30
    assert documents.prune_to([replica(30)], FEED_KEPT + 40) == 40


def test_margins_cover_the_error_of_two_clocks() -> None:
    slow, fast = 1 - CLOCK_ERROR, 1 + CLOCK_ERROR
    times = Times()
    assert READ_LEASE / slow < times.documents_end / fast
    assert READ_LEASE / slow < times.row_ends / fast
    assert times.lease < READ_LEASE
