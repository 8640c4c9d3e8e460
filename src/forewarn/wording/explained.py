"""Sentences about problems and about objects with open operations, for operators, and
with redacted values for tenants. Pure."""

from collections.abc import Collection, Mapping

from forewarn.fleet.model import Host, HostState, Vm, VmState
from forewarn.instants import (
    Micros,
    cut_to_second,
    describe_duration,
    format_instant,
)
from forewarn.problems import listed
from forewarn.protocol.blockers import SharedHost
from forewarn.protocol.events import Event, EventStatus
from forewarn.protocol.operations import (
    ENDED_STATES,
    UNSTARTED_STATES,
    Operation,
)
from forewarn.protocol.verbs import Action, TargetKind
from forewarn.wording import operators

_ENDED = frozenset(state.value for state in ENDED_STATES)


def progress(counts: Mapping[str, int], unplanned: int) -> str:
    """Return the progress of a request; `unplanned` hosts have no operation yet."""
    ended = sum(count for state, count in counts.items() if state in _ENDED)
    total = sum(counts.values()) + unplanned
    parts = [f"{count} {state.lower()}" for state, count in counts.items() if count] + (
        [f"{unplanned} not planned yet"] if unplanned else []
    )
    return f"{ended} of {total} operations have ended ({', '.join(parts)})"


def first_only(looked_at: int, open_: int) -> str:
    """Return that only the reasons of the first operations are read; empty: of all."""
    if looked_at == open_:
        return ""
    return (
        f"the reasons are those of the first {looked_at} of {open_:,} open operations"
    )


def promised(operation: Operation, *, now: Micros) -> str:
    """Return the time that a host keeps, however its tenants change their windows."""
    times = operation.promised
    if times is None or operation.state not in UNSTARTED_STATES or times[1] <= now:
        return ""
    opens, closes = map(format_instant, map(cut_to_second, times))
    return f"it keeps the time from {opens} to {closes}, even if tenants change their windows"


def freeze_of_migration(operation: Operation | None) -> str:
    """Return what a live migration is announced as, and what happens; empty: another one.

    Scheduled Events have no type of a live migration.
    """
    if operation is None or operation.action is not Action.LIVE_MIGRATE:
        return ""
    if operation.state in ENDED_STATES:
        return ""
    return (
        "it is announced as a Freeze, and is a live migration: each VM moves to another "
        "host with its memory, and pauses for some seconds at the end of its move"
    )


def event_title(event: Event) -> str:
    """Return the content of an event: `Reboot of VMs web_0, web_1`."""
    names = ", ".join(resource.vm for resource in event.resources)
    return f"{event.event_type.value} of {names} (scope {event.scope})"


def event_standing(event: Event, *, now: Micros) -> str:
    """Return the state of an event in one sentence."""
    match event.status:
        case EventStatus.NEW:
            return "it is not published yet"
        case EventStatus.SCHEDULED if event.is_approved:
            return f"{event.approved_by} approved it, and it has not started"
        case EventStatus.SCHEDULED:
            left = describe_duration(max(0, event.not_before - now))
            return f"it waits for approval, and NotBefore is in {left}"
        case EventStatus.STARTED:
            return "it has started"
        case EventStatus.REMOVED:
            how = f": {event.outcome.value}" if event.outcome else ""
            return f"it was removed{how}"


def host_standing(host: Host, vms: int) -> str:
    """Return the state of a host in one sentence."""
    how = "up" if host.state is HostState.UP else "down"
    closed = f", and {cordoned(host)}" if host.cordons else ""
    return f"it is {how}, with {vms} VM{'' if vms == 1 else 's'}{closed}"


def unreachable(why: str) -> str:
    """Return why the driver cannot reach a host, and the effect; empty: it can."""
    return f"{why}; calls for its VMs fail until it is reached" if why else ""


def partners(pool: str, others: Collection[str], *, is_cut: bool) -> str:
    """Return the hosts with which a host of a pool exchanges VMs; `is_cut`: and more."""
    if not others:
        return f"no other host is in pool {pool}, so its VMs cannot move"
    number = f"more than {len(others)}" if is_cut else f"{len(others)}"
    noun = "host" if len(others) == 1 else "hosts"
    return (
        f"it exchanges VMs with {number} other {noun} of pool {pool}: {listed(others)}"
    )


def cordoned(host: Host) -> str:
    """Return who cordoned a host, why and when."""
    owners = [
        f"{cordon.by.text} since {format_instant(cut_to_second(cordon.at))}"
        + (f" ({cordon.reason})" if cordon.reason else "")
        for cordon in host.cordons
    ]
    return f"takes no new VM: it has been cordoned by {' and by '.join(owners)}"


LEFT_BEHIND = ", which has ended or has skipped the host: open it when it is repaired"
"""The end of `cordoned` for a host that only its campaigns cordoned and left behind."""


def vm_standing(vm: Vm) -> str:
    """Return the state of a VM in one sentence; without a host for a tenant's
    reader."""
    if vm.state is VmState.DELETED:
        return "it was deleted"
    how = "runs" if vm.state is VmState.RUNNING else "is down"
    if vm.is_off:
        how = "was shut down by its user"
    where = f" on host {vm.host}" if vm.host else ""
    how_far = "moves to" if vm.started else "has a reserved place on"
    move = f" and {how_far} host {vm.moving_to}" if vm.moving_to else ""
    return f"it {how}{where}{move}"


def with_operations(standing: str, count: int) -> str:
    """Return a state with the number of open operations."""
    if not count:
        return f"{standing}; no open operation concerns it"
    which = (
        "1 open operation concerns"
        if count == 1
        else f"{count} open operations concern"
    )
    return f"{standing}; {which} it"


def shared_host(host_: SharedHost) -> str:
    """Return a sentence: a host has several fault domains of a scope, and the remedy."""
    return (
        f"{operators.shared_host(host_)}: run `forewarn maintain {host_.host} --impact "
        "live-migrate`, or redeploy one of the VMs"
    )


def down(operation: Operation) -> str:
    """Return the VMs or the host that a failure keeps down."""
    if operation.target_kind is TargetKind.VM or not operation.target:
        return f"VM {listed(operation.vms)} is down"
    count = len(operation.vms)
    if not count:
        return f"host {operation.target} is down, with no VMs on it"
    vms = f"VM{'' if count == 1 else 's'} {listed(operation.vms)}"
    return f"host {operation.target} is down, and {vms} with it"


def outcome_unknown(operation: Operation) -> str:
    """Return a sentence: the outcome of an operation's call is unknown."""
    why = operators.note(operation.note)
    return f"the outcome of {operators.task(operation)} is unknown" + (
        f": {why}" if why else ""
    )


def driver_failing(operation: Operation, *, now: Micros) -> str:
    """Return a sentence: the driver failed and will be called again."""
    left = describe_duration(max(0, operation.due_at - now))
    why = operators.note(operation.note) or "a VM has no destination"
    return (
        f"{operators.task(operation)} failed {operation.attempts} times ({why}); the "
        f"next attempt is in {left}"
    )


def approval_late(
    operation: Operation, tenants: Collection[str], *, now: Micros
) -> str:
    """Return a sentence with the tenants whose approval is missing shortly before
    NotBefore."""
    left = describe_duration(max(0, operation.not_before - now))
    have = "has" if len(tenants) == 1 else "have"
    return (
        f"{listed(tenants)} {have} not approved {operators.task(operation)}, which "
        f"starts in {left}"
    )


def held(operation: Operation, why: str) -> str:
    """Return the reason that holds a ready operation."""
    return f"{operators.task(operation)} is ready and held: {why}"


def vms_stopped(vms: int, host: str) -> str:
    """Return a sentence: more VMs stopped at once than may be failed.

    `host` is the host of all of them; empty: they are on several.
    """
    if host:
        return (
            f"{vms} VMs of host {host} stopped at once: none of them is failed, "
            "because the host may only have lost its network"
        )
    return (
        f"{vms} VMs stopped at once, which looks like a fault of the network or the "
        "driver: none of them is failed"
    )


def vm_not_running(vm: str, host: str, text: str) -> str:
    """Return a sentence: a VM was off before the driver looked, for an unknown reason."""
    reason = f" ({text})" if text else ""
    return (
        f"VM {vm} is recorded as running, but it was off on host {host} before the driver "
        f"looked, and the reason is not known{reason}: start it, or run "
        f"`forewarn fail {vm}`"
    )


def webhook_late(name: str, pending: int, error: str) -> str:
    """Return a sentence: a receiver does not accept its messages."""
    why = f" (last error: {error})" if error else ""
    return f"webhook {name} has {pending} pending messages{why}"
