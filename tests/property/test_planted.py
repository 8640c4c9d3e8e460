"""The random lives can fail: each bug planted here is found by them.

A bug replaces one function, for one test only. How many lives it may take to
find it is bounded, so that a weaker search shows.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from forewarn.control import (
    approvals,
    calls,
    consent,
    impact,
    leaving,
    obstacles,
    outcome,
    seating,
)
from forewarn.control.work import Work, events_for
from forewarn.drivers.port import Call
from forewarn.fleet import placement
from forewarn.instants import MINUTE
from forewarn.protocol import documents
from forewarn.protocol.operations import CallState, Operation
from forewarn.protocol.views import View
from tests.support.machine import Lives

IS_DEEP = settings().max_examples > 100

LIVES_MAX = 300
"""Lives in which a planted bug must show; most show in the first twenty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bug:
    """A function, and what stands in its place."""

    name: str
    home: Any
    function: str
    instead: Callable[..., Any]
    rare: bool = False
    """It shows in few lives: only a deep run has the time for it."""


def _any_approval(operation: Operation, events: Any, *, now: int) -> bool:
    return now >= operation.not_before or any(event.is_approved for event in events)


def _early(operation: Operation, events: Any, *, now: int) -> bool:
    due = now >= operation.not_before - 5 * MINUTE
    return due or all(event.is_approved for event in events)


def _same_number(work: Work, view: View) -> View:
    """Show other events under the old incarnation."""
    events = events_for(work.tx, view, now=work.now)
    digest = documents.digest(events)
    if not view.is_enabled or digest == view.digest:
        return view
    shown = work.tx.replace(view, replace(view, digest=digest))
    work.tell_view(shown)
    return shown


def _same_generation(work: Work, operation: Operation, *, attempts: int) -> None:
    """Make a second attempt under the name of the first."""
    issued = work.save_operation(
        operation,
        replace(
            operation,
            generation=max(1, operation.generation),
            attempts=attempts,
            call_state=CallState.ISSUED,
            due_at=work.now + work.policy.driver_timeout,
        ),
    )
    work.call(calls.call_of(issued))


def _all_at_once(operation: Operation) -> Any:
    return tuple(move for move in operation.moves if not move.done)


def _called_before_commit(work: Work, call: Call) -> None:
    """Owe the call twice."""
    work._calls.extend((call, call))


BUGS = (
    Bug(
        name="the guard lets everything pass",
        home=obstacles,
        function="guard",
        instead=lambda *_args, **_kwargs: (),
    ),
    Bug(
        name="one approval is enough for all",
        home=consent,
        function="is_released",
        instead=_any_approval,
    ),
    Bug(
        name="a start comes minutes before NotBefore",
        home=consent,
        function="is_released",
        instead=_early,
    ),
    Bug(
        name="the incarnation does not rise",
        home=Work,
        function="render",
        instead=_same_number,
    ),
    Bug(
        name="anybody may approve",
        home=approvals,
        function="sees",
        instead=lambda *_args: True,
    ),
    Bug(
        name="a second attempt has the name of the first",
        home=calls,
        function="issue",
        instead=_same_generation,
        rare=True,
    ),
    Bug(
        name="the VMs of a migration move all at once",
        home=calls,
        function="current_moves",
        instead=_all_at_once,
        rare=True,
    ),
    Bug(
        name="a call is made twice",
        home=Work,
        function="call",
        instead=_called_before_commit,
    ),
    Bug(
        name="hosts have room for everybody",
        home=placement,
        function="_room",
        instead=lambda _candidate: 1.0,
    ),
    Bug(
        name="two calls meet on one VM",
        home=obstacles,
        function="_busy",
        instead=lambda *_args: (),
        rare=True,
    ),
    Bug(
        name="every report counts",
        home=outcome,
        function="_contradictions",
        instead=lambda *_args: [],
        rare=True,
    ),
    Bug(
        name="who leaves is still named",
        home=leaving,
        function="_shrink_event",
        instead=lambda *_args: None,
        rare=True,
    ),
    Bug(
        name="views are never dropped",
        home=seating,
        function="drop_empty_views",
        instead=lambda *_args: None,
    ),
    Bug(
        name="nobody says that a call left VMs down",
        home=impact,
        function="_vm_done",
        instead=lambda *_args: None,
    ),
)


@pytest.mark.slow
@pytest.mark.usefixtures("patient")
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "bug",
    [bug for bug in BUGS if IS_DEEP or not bug.rare],
    ids=lambda bug: bug.name,
)
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bug.home, bug.function, bug.instead)

    with pytest.raises((AssertionError, LookupError)):
        run_state_machine_as_test(
            Lives,
            settings=settings(
                max_examples=LIVES_MAX,
                stateful_step_count=40,
                phases=[Phase.generate],
                database=None,
                derandomize=True,
                report_multiple_bugs=False,
                print_blob=False,
                suppress_health_check=(
                    HealthCheck.too_slow,
                    HealthCheck.data_too_large,
                    HealthCheck.filter_too_much,
                ),
            ),
        )
