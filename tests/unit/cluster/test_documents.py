"""How long a replica may answer, and how far the feed goes back."""

from dataclasses import replace

import pytest

from forewarn.cluster import documents
from forewarn.cluster.documents import Reading
from forewarn.cluster.lease import LeaseState
from forewarn.cluster.port import ReplicaRow, Role
from forewarn.cluster.times import CLOCK_ERROR, FEED_KEPT, READ_LEASE, Times
from forewarn.instants import SECOND, Micros
from forewarn.service.cluster_options import LEASE_MAX, LEASE_MIN


def replica(position: int, key: str = "b") -> ReplicaRow:
    return ReplicaRow(key=key, name=key, url="", position=position)


def may_answer(reading: Reading, now: float) -> bool:
    """Return whether a follower may answer."""
    return now < documents.answers_until(reading, LeaseState(), 0)


def test_read_lease_counts_from_before_the_write_of_the_row() -> None:
    reading = documents.wrote(Reading(), asked=100.0)
    assert not may_answer(reading, 100.0)
    reading = documents.published(reading, 7)
    assert reading.position == 7
    assert may_answer(reading, 104.9)
    assert not may_answer(reading, 105.0)


def test_without_a_row_there_is_no_read_lease() -> None:
    reading = documents.published(Reading(), 7)
    assert reading.position == 7
    assert not may_answer(reading, 0.0)


def test_older_snapshot_extends_nothing() -> None:
    reading = documents.published(documents.wrote(Reading(), asked=100.0), 7)
    again = documents.wrote(reading, asked=104.0)
    assert documents.published(again, 6) is again
    assert not may_answer(again, 105.0)
    assert may_answer(documents.published(again, 7), 105.0)


LEADS = LeaseState(role=Role.LEADS, term=3, renewed=10.0, until=12.7)


def test_leader_answers_for_a_read_lease_after_its_renewal() -> None:
    for lease_state in (LEADS, replace(LEADS, role=Role.UNSURE)):
        assert documents.answers_until(Reading(), lease_state, 3) == 15.0
    assert documents.answers_until(Reading(until=16.0), LEADS, 3) == 16.0
    ended = replace(LEADS, role=Role.FOLLOWS)
    assert documents.answers_until(Reading(until=11.0), ended, 3) == 11.0


@pytest.mark.parametrize("published", [0, 2])
def test_leader_that_has_not_published_answers_as_a_follower(published: int) -> None:
    assert documents.answers_until(Reading(until=11.0), LEADS, published) == 11.0


def test_replica_that_has_seen_more_than_the_database_does_not_answer() -> None:
    behind = replace(LEADS, role=Role.BEHIND)
    assert documents.answers_until(Reading(until=11.0), behind, 3) == 0.0


@pytest.mark.parametrize("lease", [LEASE_MIN, SECOND, 15 * SECOND, LEASE_MAX])
def test_healthy_leader_always_answers(lease: Micros) -> None:
    """Its next renewal comes before its documents end, with any lease that can be set."""
    times = Times(lease=lease / SECOND)
    assert times.renew_every * 3 <= times.lease
    assert times.renew_every * 4 < READ_LEASE


def test_feed_is_kept_for_the_slowest_replica_up_to_a_bound() -> None:
    assert documents.prune_to([], 50, key="a") == 50
    leader = replica(10, "a")
    assert documents.prune_to([leader, replica(40), replica(30)], 50, key="a") == 30
    assert documents.prune_to([replica(30)], FEED_KEPT + 40, key="a") == 40


def test_margins_cover_the_error_of_two_clocks() -> None:
    slow, fast = 1 - CLOCK_ERROR, 1 + CLOCK_ERROR
    times = Times()
    assert READ_LEASE / slow < times.documents_end / fast
    assert READ_LEASE / slow < times.row_ends / fast
    assert times.lease < READ_LEASE


@pytest.mark.parametrize("lease", [LEASE_MIN / SECOND, 2.4, LEASE_MAX / SECOND])
def test_leader_keeps_its_lease_while_a_step_of_the_schema_waits_for_a_table(
    lease: float,
) -> None:
    """The renewal that waits is sent at the latest `renew_every` after the one before."""
    times = Times(lease=lease)
    until = times.renew_every + times.table_wait
    assert until < times.call_within
    assert until < READ_LEASE
