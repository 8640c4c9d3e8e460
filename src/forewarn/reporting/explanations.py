"""Explanations for any ID: its state, the reasons why it waits, and remedies.

A host, a VM, an event and a rollout are explained by their open operations. Every
reason is a value from the guard's code, with its sentence.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from forewarn.control.redaction import tenant_reader
from forewarn.control.rules import guard
from forewarn.control.rules.remedies import actionable_first, remedy_of
from forewarn.control.transactions.named import is_id, kind_of_work
from forewarn.fleet.model import Host, Scope, Tenant, Vm, VmState
from forewarn.instants import Micros, format_instant
from forewarn.problems import (
    NAMES_COMPARED_MAX,
    NAMES_LISTED_MAX,
    nearest,
    quoted,
)
from forewarn.protocol.blockers import (
    AnyBlocker,
    DriverRetry,
    NotApproved,
    NotDue,
    NoticeRuns,
    SharedHost,
    bounded,
)
from forewarn.protocol.errors import NotFoundError, RefusedError
from forewarn.protocol.events import Event
from forewarn.protocol.operations import ENDED_STATES, Operation, Request
from forewarn.store import kinds
from forewarn.store.kinds import Query
from forewarn.store.port import Reader, every
from forewarn.wording import explained, operators

Json: TypeAlias = dict[str, Any]

EXPLAINED_MAX = 20
"""Maximum operations in the explanation of a rollout, event, host or VM; the number of
the others is counted. The reasons of a Planned host take some milliseconds to find."""

NEAR_ROWS = 100
"""Maximum names that are read for each prefix of an unknown name."""


def explain(reader: Reader, name: str, *, now: Micros, kind: str = "") -> Json:
    """Return the state of an object, and every reason why it waits.

    `kind` is `host` or `vm`, if a host and a VM have this name. Raises NotFoundError
    with the nearest names, and RefusedError for an ambiguous name.
    """
    named = tenant_reader.real_id(reader, name)
    operation = reader.get(Operation, named)
    if operation is not None:
        return of_operation(reader, operation, now=now)
    if (request := reader.get(Request, named)) is not None:
        return _of_request(reader, request, now=now)
    if (event := reader.get(Event, name.upper())) is not None:
        return _of_event(reader, event, now=now)
    host = None if kind == "vm" else reader.get(Host, name)
    vm = None if kind == "host" else reader.get(Vm, name)
    if host is not None and vm is not None:
        raise RefusedError(
            f"{name} is the name of a host and of a VM",
            hint=f"Use `forewarn explain {name} --kind host` or `--kind vm`.",
        )
    if host is not None:
        return _of_host(reader, host, now=now)
    if vm is not None:
        return _of_vm(reader, vm, now=now)
    raise _unknown(reader, name)


def of_operation(reader: Reader, operation: Operation, *, now: Micros) -> Json:
    """Return the state of an operation, and the reasons why it waits."""
    blockers = tenant_reader.blockers(reader, operation, now=now)
    return _explanation(
        "operation",
        operation.operation_id,
        what=operators.task(operation),
        state=operation.state.value,
        standing=operators.standing(operation, blockers, now=now),
        blockers=blocker_reports(reader, operation, blockers, now=now),
        note=operators.note(operation.note),
        no_driver_call=operation.called_no_driver,
    )


def blocker_reports(
    reader: Reader,
    operation: Operation,
    blockers: Iterable[AnyBlocker],
    *,
    now: Micros,
) -> list[Json]:
    """Return reasons as values, each with its sentence and subjects."""
    missing = [each for each in blockers if isinstance(each, NotApproved)]
    events = (
        {
            event.scope: event.event_id
            for event in every(reader, kinds.EVENTS_OF_OPERATION, operation.key)
        }
        if missing
        else {}
    )
    return [
        _blocker(each, now=now, not_before=operation.not_before, events=events)
        for each in blockers
    ]


def _blocker(
    blocker: AnyBlocker,
    *,
    now: Micros,
    not_before: Micros = 0,
    events: Mapping[str, str] | None = None,
) -> Json:
    """Return a reason as values; `not_before` and `events` are those of its operation."""
    match blocker:
        case NotApproved():
            event, until = (events or {}).get(blocker.scope), not_before
        case NotDue() | NoticeRuns() | DriverRetry():
            event, until = None, now + blocker.remaining
        case _:
            event, until = None, 0

    def named(field: str) -> str | None:
        return str(getattr(blocker, field, "")) or None

    return {
        "kind": blocker.kind,
        "text": operators.reason(blocker),
        "remedy": remedy_of(blocker).value,
        "tenant": named("tenant"),
        "scope": named("scope"),
        "event": event,
        "vm": named("vm"),
        "host": named("host"),
        "operation": named("operation"),
        "until": format_instant(until) if until else None,
    }


def _explanation(
    kind: str,
    name: str,
    *,
    what: str,
    state: str,
    standing: str,
    blockers: Sequence[Json] = (),
    note: str = "",
    no_driver_call: bool = False,
    counts: Counter[str] | None = None,
    operations: Sequence[Json] = (),
    more_operations: int = 0,
) -> Json:
    return {
        "kind": kind,
        "id": name,
        "what": what,
        "state": state,
        "standing": standing,
        "blocked_by": [each["text"] for each in blockers],
        "blockers": list(blockers),
        "note": note,
        "no_driver_call": no_driver_call,
        "counts": dict(counts or {}),
        "operations": list(operations),
        "more_operations": more_operations,
    }


def _of_operations(
    reader: Reader, operations: Sequence[Operation], *, now: Micros
) -> tuple[list[Json], list[Json]]:
    """Return the explanations of some operations, and their reasons without
    duplicates.

    Of several operations, a kind of reason has a few sentences and a count.
    """

    def limited(blockers: Iterable[AnyBlocker]) -> tuple[AnyBlocker, ...]:
        return bounded(blockers) if len(operations) > 1 else tuple(blockers)

    reader = tenant_reader.remembered(reader)
    found: list[Json] = []
    reasons: dict[AnyBlocker, Json] = {}
    for operation in operations:
        blockers = tenant_reader.blockers(reader, operation, now=now)
        reports = blocker_reports(reader, operation, blockers, now=now)
        for blocker, report in zip(blockers, reports, strict=True):
            reasons.setdefault(blocker, report)
        found.append(
            {
                "operation": operation.operation_id,
                "what": operators.task(operation),
                "state": operation.state.value,
                "standing": operators.standing(operation, blockers, now=now),
                "blocked_by": operators.reasons(limited(blockers)),
            }
        )
    told = limited(actionable_first(reasons))
    return found, [
        # A count of further reasons is new.
        reasons[each] if each in reasons else _blocker(each, now=now)
        for each in told
    ]


def _of_request(reader: Reader, request: Request, *, now: Micros) -> Json:
    counts: Counter[str] = Counter()
    open_: dict[str, list[Operation]] = {}
    for each in every(reader, kinds.OPERATIONS_OF_REQUEST, request.request_id):
        counts[each.state.value] += 1
        kept = open_.setdefault(each.state.value, [])
        if each.state not in ENDED_STATES and len(kept) < EXPLAINED_MAX:
            kept.append(each)
    order = ("Impacting", "Ready", "Announced", "Recovering", "Planned")
    looked_at = [each for state in order for each in open_.get(state, ())]
    looked_at = looked_at[:EXPLAINED_MAX]
    found, reasons = _of_operations(reader, looked_at, now=now)
    return _explanation(
        "rollout" if request.is_rollout else "request",
        request.request_id,
        what=request.verb.value,
        state=request.state.value,
        standing=explained.progress(counts, len(request.unplanned)),
        blockers=reasons,
        counts=counts,
        operations=found,
        more_operations=sum(counts[state] for state in order) - len(found),
    )


def _of_event(reader: Reader, event: Event, *, now: Micros) -> Json:
    operation = reader.get(Operation, event.operation)
    found, reasons = _of_operations(reader, [operation] if operation else [], now=now)
    return _explanation(
        "event",
        event.event_id,
        what=explained.event_title(event),
        state=event.status.value,
        standing=explained.event_standing(event, now=now),
        # An ended event has no reasons.
        blockers=reasons if event.is_live else (),
        operations=found,
    )


def _of_host(reader: Reader, host: Host, *, now: Micros) -> Json:
    there = list(every(reader, kinds.VMS_ON_HOST, host.name))
    shares = guard.shares(host.name, there)
    return _of_place(
        reader,
        every(reader, kinds.OPEN_OPERATIONS_OF_HOST, host.name),
        kind="host",
        name=host.name,
        state=host.state.value,
        standing=_with_shares(explained.host_standing(host, len(there)), shares),
        now=now,
    )


def _of_vm(reader: Reader, vm: Vm, *, now: Micros) -> Json:
    is_there = vm.state is not VmState.DELETED
    return _of_place(
        reader,
        every(reader, kinds.OPEN_OPERATIONS_OF_VM, vm.name) if is_there else iter(()),
        kind="vm",
        name=vm.name,
        state=vm.state.value,
        standing=_with_shares(
            explained.vm_standing(vm), _shares_of(reader, vm) if is_there else ()
        ),
        now=now,
    )


def _shares_of(reader: Reader, vm: Vm) -> Iterator[SharedHost]:
    """Yield the VM's scope if its host has several fault domains of it.

    A tenant's reader shows no host.
    """
    there = every(reader, kinds.VMS_ON_HOST, vm.host) if vm.host else ()
    return (each for each in guard.shares(vm.host, there) if each.scope == vm.scope)


def _with_shares(standing: str, shares: Iterable[SharedHost]) -> str:
    """Return a state with the scopes of which the host has several fault domains."""
    return operators.JOINT.join([standing, *map(explained.shared_host, shares)])


def _of_place(
    reader: Reader,
    operations: Iterable[Operation],
    *,
    kind: str,
    name: str,
    state: str,
    standing: str,
    now: Micros,
) -> Json:
    open_ = list(operations)
    found, reasons = _of_operations(reader, open_[:EXPLAINED_MAX], now=now)
    return _explanation(
        kind,
        name,
        what=f"{kind} {name}",
        state=state,
        standing=explained.with_operations(standing, len(open_)),
        blockers=reasons,
        operations=found,
        more_operations=len(open_) - len(found),
    )


# Unknown names


NEAR_PREFIXES_MAX = 20
"""Maximum prefixes of an unknown name whose successors are read: an ID has as many
characters. A name with one wrong character follows the prefix before it."""

_GROUPS: tuple[tuple[type[Tenant] | type[Scope], str], ...] = (
    (Scope, "scope"),
    (Tenant, "tenant"),
)
"""Objects that select operations, and are not explained."""

_NAMES: tuple[Query[Any], ...] = (kinds.ALL_HOSTS, kinds.ALL_VMS)
_IDS: dict[type[Operation] | type[Request], tuple[Query[Any], ...]] = {
    Operation: (kinds.ALL_OPERATIONS,),
    Request: (kinds.ROLLOUTS,),
}
"""Queries that find names similar to an unknown one."""

_LISTS = (
    "Run `forewarn fleet show --all`, `forewarn operations --all`, "
    "`forewarn events --all` or `forewarn rollout list --all` to list names."
)


def _unknown(reader: Reader, name: str) -> NotFoundError:
    """Return the error for an unknown name, with the nearest names."""
    for type_, noun in _GROUPS:
        if reader.get(type_, name) is not None:
            return NotFoundError(
                f"{name!r} is a {noun}, not an operation, rollout, event, host or VM",
                hint=f"Run `forewarn operations --{noun} {name}` to list its operations.",
            )
    found = _candidates(reader, name)
    # A name that was typed only in part is not similar, because it is too short.
    begun = [each for each in found if each.startswith(name)][:NAMES_LISTED_MAX]
    near = begun or nearest(name, found)
    hint = f"Did you mean {' or '.join(map(quoted, near))}?" if near else _LISTS
    return NotFoundError(
        f"there is no operation, rollout, event, host or VM {name!r}", hint=hint
    )


def _candidates(reader: Reader, name: str) -> list[str]:
    """Return candidates: the names after the unknown name and each prefix of it, those
    with the longest prefix first."""
    queries = _IDS[kind_of_work(name)] if is_id(name) else _NAMES
    lengths = range(len(name), -1, -1)[: NEAR_PREFIXES_MAX - 1]
    found: dict[str, None] = {}
    for length in dict.fromkeys((*lengths, 0)):
        for query in queries:
            rows = reader.select(query, after=name[:length], limit=NEAR_ROWS)
            found.update((row.key, None) for row in rows)
        if len(found) >= NAMES_COMPARED_MAX:
            break
    return list(found)
