"""Tests that the argument for replicas names fail if their step is false.

Each fault replaces the function of a step by a wrong one, and the named test must notice
it. Only tests in memory are tried; `tests/property/test_replica_lives.py` has planted
faults of its own.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest

from forewarn.admin import relay_hub
from forewarn.cluster import calls, documents, lease
from forewarn.cluster.documents import Reading
from forewarn.cluster.lease import LeaseState
from forewarn.cluster.port import ReplicaRow, Role
from forewarn.cluster.times import CLOCK_ERROR, Times
from forewarn.control import driver_link
from forewarn.drivers import marks
from forewarn.relay import knowledge
from forewarn.service.cluster import follower, gate, keeper, replica
from forewarn.store import memory_cluster, sequence
from forewarn.store.feed import changes_of
from forewarn.store.memory_cluster import SharedMemory
from tests.contract.cluster import test_cluster
from tests.contract.cluster.conftest import MemoryDatabase
from tests.house.test_proofs import ROWS
from tests.unit.admin import test_relay_links
from tests.unit.cluster import test_calls, test_documents, test_lease
from tests.unit.control import test_call_gate, test_changed_views
from tests.unit.relay import test_knowledge
from tests.unit.service.cluster import (
    test_follower,
    test_keeper,
    test_own_writes,
    test_waited_for,
)


def _fleet() -> "test_follower.Fleet":
    fleet = test_follower.Fleet()
    fleet.add(test_follower.view_of("v1"), test_follower.vm_of("a1", view="v1"))
    return fleet


def _always(result: object) -> Callable[..., Any]:
    return lambda *_given, **_named: result


def _write_before_publishing(self: follower.Follower) -> bool:
    """Confirm the position of a snapshot before it is published."""
    moment, _ = self._cluster.follow(self._position, lambda _reader, it: (it, None))
    with self._lock:
        self._reading = dataclasses.replace(self._reading, position=moment.number)
    self._write()
    return _ROUND(self)


def _lead_without_a_round(self: follower.Follower) -> tuple[str, ...]:
    """Leave the documents to the plane as they are."""
    self._leads = True
    return ()


async def _at_once(_self: replica.Replica) -> None:
    """Wait for no document."""


_ROUND = follower.Follower._round

_ANSWERS = documents.answers_until

_QUIET, _SILENT = calls.quiet, calls.silent

_STEPS: Mapping[Role, Any] = {
    role: {**steps, lease.LeaseInput.SEE: Role.LEADS}
    for role, steps in lease.ROLE_STEPS.items()
}


class _SameBeat:
    """Lets each new row of a replica begin at the same beat."""

    def __rlshift__(self, _rows: int) -> int:
        return 1


def _living_only(
    beats: calls.Beats, rows: tuple[ReplicaRow, ...], *, now: float
) -> frozenset[str]:
    """Wait only for replicas whose row has changed since this one saw it first."""
    others = {row.key for row in rows if row.key not in beats.living}
    return _QUIET(beats, rows, now=now) | others


def _silent_without_takeover(
    beats: calls.Beats,
    rows: tuple[ReplicaRow, ...],
    times: Times,
    *,
    key: str,
    since: float,
    now: float,
) -> tuple[ReplicaRow, ...]:
    """Remove rows that were silent for long before the takeover."""
    return _SILENT(beats, rows, times, key=key, since=since * 0, now=now)


class Fault(NamedTuple):
    """A step of the page that is false."""

    step: str
    place: object
    """The module or class of the function that is replaced."""
    name: str
    wrong: object
    test: Callable[..., None]
    fixture: Callable[[], object] | None
    """Creates the first argument of the test."""
    parameters: tuple[object, ...] = ()


KEEPER, CALLS, GATE = test_keeper, test_calls, test_call_gate

FAULTS = (
    Fault(
        "P1.5",
        lease,
        "_is_behind",
        _always(False),
        KEEPER.test_leader_notices_that_the_database_lost_its_own_transaction,
        SharedMemory,
    ),
    Fault(
        "P1.5",
        keeper,
        "seen_by_others",
        _always(0),
        KEEPER.test_leader_notices_that_another_replica_has_seen_more_than_the_database,
        SharedMemory,
    ),
    Fault(
        "P1.5",
        follower.Follower,
        "_highest",
        _always(0),
        KEEPER.test_replica_that_is_started_again_remembers_what_it_has_seen,
        SharedMemory,
    ),
    Fault(
        "P2.1",
        memory_cluster,
        "changes_of",
        lambda written: changes_of(list(written)[:1]),
        test_cluster.test_snapshot_has_the_records_of_its_feed,
        MemoryDatabase,
    ),
    Fault(
        "P2.2",
        follower.Follower,
        "_round",
        _write_before_publishing,
        test_follower.test_position_is_confirmed_after_the_publication,
        _fleet,
    ),
    Fault(
        "P2.3",
        documents,
        "published",
        lambda reading, number: Reading(
            position=number, written=reading.written, until=math.inf
        ),
        test_follower.test_follower_answers_until_its_read_lease_ends,
        _fleet,
    ),
    Fault(
        "P2.4",
        documents,
        "answers_until",
        lambda reading, lease_state, _published: _ANSWERS(
            reading, lease_state, lease_state.term
        ),
        test_documents.test_leader_that_has_not_published_answers_as_a_follower,
        None,
        (2,),
    ),
    Fault(
        "P2.4",
        documents,
        "answers_until",
        lambda reading, _lease_state, _published: reading.until,
        test_documents.test_leader_answers_for_a_read_lease_after_its_renewal,
        None,
    ),
    Fault(
        "P2.5",
        gate,
        "why_wait",
        _always(None),
        KEEPER.test_calls_wait_for_the_replicas_that_are_behind,
        SharedMemory,
    ),
    Fault(
        "P2.5",
        keeper,
        "silent",
        _silent_without_takeover,
        test_waited_for.test_calls_wait_for_a_former_leader_that_wrote_no_row_for_long,
        SharedMemory,
    ),
    Fault(
        "P2.6",
        calls,
        "_behind",
        lambda commit, positions, key: [
            row
            for row in positions.rows
            if row.key != key and row.position < commit.number
        ],
        CALLS.test_rows_from_before_the_commit_do_not_count,
        None,
    ),
    Fault(
        "P2.7",
        memory_cluster,
        "BEAT_BITS",
        _SameBeat(),
        KEEPER.test_replica_whose_row_was_removed_and_came_again_is_waited_for,
        SharedMemory,
    ),
    Fault(
        "P2.8",
        replica.Replica,
        "caught_up",
        _at_once,
        test_own_writes.test_follower_answers_an_approval_when_it_serves_the_result,
        None,
    ),
    Fault(
        "P2.9",
        documents,
        "published",
        lambda reading, number: Reading(
            position=number, written=reading.written, until=math.inf
        ),
        test_follower.test_database_that_lost_transactions_is_not_followed,
        _fleet,
    ),
    Fault(
        "P2.10",
        relay_hub.RelayHub,
        "change_role",
        _always(None),
        test_relay_links.test_streams_end_when_the_service_ceases_to_lead,
        None,
    ),
    Fault(
        "P2.11",
        follower.Follower,
        "lead",
        _lead_without_a_round,
        test_follower.test_new_leader_serves_what_is_committed_without_reading_everything,
        _fleet,
    ),
    Fault(
        "P2.12",
        sequence.Numbers,
        "epoch",
        _always(1),
        test_changed_views.test_view_that_is_created_again_begins_above_its_old_one,
        None,
        (("web_0",),),
    ),
    Fault(
        "P2.13",
        knowledge,
        "_is_older",
        _always(False),
        test_knowledge.test_a_service_with_an_older_document_has_lost_its_store,
        None,
        (test_knowledge.view("web", 4), True, "abc", test_knowledge.Form.WHOLE),
    ),
    Fault(
        "P2.14",
        gate,
        "is_read",
        _always(True),
        KEEPER.test_answers_wait_only_for_replicas_that_give_signs_of_life,
        SharedMemory,
    ),
    Fault(
        "P2.14",
        keeper,
        "quiet",
        _living_only,
        test_waited_for.test_answer_waits_for_a_new_replica_from_its_first_row,
        SharedMemory,
    ),
    Fault(
        "P2.14",
        keeper,
        "quiet",
        lambda _beats, rows, now: frozenset(row.key for row in rows),
        test_waited_for.test_new_leader_waits_at_once_for_replicas_that_ran_before_its_term,
        SharedMemory,
        (True,),
    ),
    Fault(
        "P2.14",
        keeper,
        "quiet",
        lambda beats, rows, now: _QUIET(beats, rows, now=now + 2.5),
        test_waited_for.test_slow_answer_about_rows_shows_no_silence_of_a_replica,
        SharedMemory,
    ),
    Fault(
        "P2.14",
        follower.Follower,
        "_remove_row",
        _always(None),
        test_follower.test_follower_that_stops_removes_its_row,
        _fleet,
        (False,),
    ),
    Fault(
        "P3.2",
        lease,
        "free_at",
        lambda _seen, times, since: since + times.lease,
        KEEPER.test_candidate_with_a_shorter_lease_waits_for_that_of_the_leader,
        SharedMemory,
    ),
    Fault(
        "P3.4",
        driver_link.DriverLink,
        "_may_come_late",
        _always(False),
        GATE.test_call_that_another_replica_may_still_make_is_not_made_here,
        GATE.Service,
        (True,),
    ),
    Fault(
        "P3.4",
        marks,
        "check_replacing",
        _always(None),
        GATE.test_call_of_a_leader_that_was_paused_changes_nothing_after_a_newer_call,
        GATE.Service,
    ),
    Fault(
        "P3.5",
        Times,
        "documents_end",
        property(_always(5.0 * (1 - CLOCK_ERROR))),
        test_documents.test_margins_cover_the_error_of_two_clocks,
        None,
    ),
    Fault(
        "P4.5",
        keeper.Keeper,
        "_watch",
        lambda self: setattr(
            self, "_lease_state", LeaseState(role=Role.LEADS, term=2, until=math.inf)
        ),
        KEEPER.test_lost_answer_to_a_takeover_leads_nobody,
        SharedMemory,
    ),
    Fault(
        "P4.6",
        lease,
        "may_call_in",
        lambda lease_state, _term, now: lease.may_call(lease_state, now),
        KEEPER.test_calls_of_an_ended_term_never_begin_when_the_replica_leads_again,
        SharedMemory,
    ),
    Fault(
        "P4.9",
        test_lease,
        "ROLE_STEPS",
        _STEPS,
        test_lease.test_only_a_takeover_leads_from_following_to_leading,
        None,
    ),
)


@pytest.mark.parametrize(
    "fault", FAULTS, ids=[f"{fault.step} {fault.name}" for fault in FAULTS]
)
def test_named_test_fails_if_its_step_is_false(
    fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run() -> None:
        fixtures = () if fault.fixture is None else (fault.fixture(),)
        fault.test(*fixtures, *fault.parameters)

    assert fault.test.__name__ in ROWS[fault.step], "the page does not name the test"
    run()
    monkeypatch.setattr(fault.place, fault.name, fault.wrong)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        run()
