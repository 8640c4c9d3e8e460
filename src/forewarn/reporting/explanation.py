"""The parts of every explanation: its members, its open operations and their reasons."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

from forewarn.control.redaction import tenant_reader
from forewarn.control.rules.remedies import actionable_first
from forewarn.instants import Micros
from forewarn.protocol.blockers import AnyBlocker, NotItsTurn, bounded
from forewarn.protocol.operations import Operation, OperationState
from forewarn.reporting.blocker_reports import blocker_report, blocker_reports
from forewarn.store.port import Reader
from forewarn.wording import explained, operators

Json: TypeAlias = dict[str, Any]

EXPLAINED_MAX = 20
"""Maximum operations in the explanation of a rollout, event, host or VM; the number of
the others is counted. The reasons of a Planned host take some milliseconds to find."""


def explanation(
    kind: str,
    name: str,
    *,
    what: str,
    state: str,
    status: str,
    blockers: Sequence[Json] = (),
    note: str = "",
    no_driver_call: bool = False,
    counts: Counter[str] | None = None,
    operations: Sequence[Json] = (),
    more_operations: int = 0,
    abilities: Sequence[Json] = (),
    upcoming: Sequence[Json] = (),
) -> Json:
    """Return an explanation with all its members."""
    return {
        "kind": kind,
        "id": name,
        "what": what,
        "state": state,
        "status": status,
        "blocked_by": [blocker["text"] for blocker in blockers],
        "blockers": list(blockers),
        "note": note,
        "no_driver_call": no_driver_call,
        "counts": dict(counts or {}),
        "operations": list(operations),
        "more_operations": more_operations,
        "abilities": list(abilities),
        "upcoming": list(upcoming),
    }


class WaitingHosts(NamedTuple):
    """Hosts of a rollout that have no events yet."""

    hosts: int
    seen: int
    """Hosts among them whose reasons are read."""


def of_operations(
    reader: Reader,
    operations: Sequence[Operation],
    *,
    now: Micros,
    waiting: WaitingHosts | None = None,
    own: Collection[AnyBlocker] | None = None,
) -> tuple[list[Json], list[Json]]:
    """Return the explanations of some operations, and their reasons without
    duplicates.

    Of several operations, a kind of reason has a few sentences and a count. In a rollout,
    the hosts that wait only for their turn have one reason together. `own` are the
    blockers of the object itself, which are left out here, with Planned operations that
    have no others.
    """

    def limited(blockers: Iterable[AnyBlocker]) -> tuple[AnyBlocker, ...]:
        return bounded(blockers) if len(operations) > 1 else tuple(blockers)

    reader = tenant_reader.remembered(reader)
    documents: list[Json] = []
    reasons: dict[AnyBlocker, Json] = {}
    turns: list[NotItsTurn] = []
    for operation in operations:
        blockers = tenant_reader.blockers(reader, operation, now=now)
        if waiting is not None:
            turns += (
                blocker for blocker in blockers if isinstance(blocker, NotItsTurn)
            )
            if blockers and all(
                isinstance(blocker, NotItsTurn) for blocker in blockers
            ):
                continue
        if (
            own is not None
            and operation.state is OperationState.PLANNED
            and all(blocker in own for blocker in blockers)
        ):
            continue
        reports = blocker_reports(reader, operation, blockers, now=now)
        for blocker, report in zip(blockers, reports, strict=True):
            is_turn = waiting is not None and isinstance(blocker, NotItsTurn)
            if not is_turn and blocker not in (own or ()):
                reasons.setdefault(blocker, report)
        shown = limited(blockers)
        known = dict(zip(blockers, reports, strict=True))
        documents.append(
            {
                "operation": operation.operation_id,
                "what": operators.task(operation),
                "state": operation.state.value,
                "status": joined(
                    operators.standing(operation, blockers, now=now),
                    explained.freeze_of_migration(operation),
                ),
                "blocked_by": operators.reasons(shown),
                "blockers": [
                    known.get(blocker) or blocker_report(blocker, now=now)
                    for blocker in shown
                ],
            }
        )
    merged = _merged_turn(turns, waiting)
    shown = limited(actionable_first((*reasons, *merged)))
    return documents, [
        # A count of further reasons is new.
        reasons[blocker] if blocker in reasons else blocker_report(blocker, now=now)
        for blocker in shown
    ]


def _merged_turn(
    turns: Sequence[NotItsTurn], waiting: WaitingHosts | None
) -> tuple[NotItsTurn, ...]:
    """Return one reason for all hosts of a rollout that wait for their turn.

    Hosts whose reasons were not read come after those that were, and wait for it too.
    """
    if waiting is None or not turns:
        return ()
    return (replace(turns[0], waiting=waiting.hosts - waiting.seen + len(turns)),)


def joined(*sentences: str) -> str:
    """Return the sentences that are not empty, on one line."""
    return operators.JOINT.join(filter(None, sentences))


def of_place(
    reader: Reader,
    operations: Iterable[Operation],
    *,
    kind: str,
    name: str,
    state: str,
    status: str,
    abilities: Sequence[Json] = (),
    now: Micros,
    what: str = "",
    upcoming: Sequence[Json] = (),
) -> Json:
    """Return the explanation of an object by the open operations that concern it."""
    open_ = list(operations)
    documents, reasons = of_operations(reader, open_[:EXPLAINED_MAX], now=now)
    return explanation(
        kind,
        name,
        what=what or f"{kind} {name}",
        state=state,
        status=joined(
            explained.with_operations(status, len(open_)),
            explained.first_only(len(documents), len(open_)),
        ),
        blockers=reasons,
        operations=documents,
        more_operations=len(open_) - len(documents),
        abilities=abilities,
        upcoming=upcoming,
    )
