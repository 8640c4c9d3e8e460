"""The verbs as tests give them: each is the operator's own, by its own name.

With a `notice` of its own an event is staged instead: what the rules of notice
forbid, such as a Reboot in two seconds, the world has shown all the same.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from forewarn.control.requests import failures, verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.transactions.work import Work
from forewarn.fleet.model import Host
from forewarn.instants import SECOND
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.events import Event as StoredEvent
from forewarn.protocol.events import EventSource, EventType
from forewarn.protocol.operations import Action, Operation, Request, Verb
from forewarn.sim import staged
from forewarn.sim.staged import Staged
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.testing.kit.core import Core
from forewarn.testing.kit.durations import Length, micros_of
from forewarn.testing.kit.names import unknown
from forewarn.testing.kit.setup import host_of

Impact: TypeAlias = Literal["freeze", "live-migrate", "reboot", "redeploy"]
"""What maintenance of a host does to its VMs."""

Decide: TypeAlias = Callable[[Work], Request | Operation]

_TYPES: Mapping[Action, EventType] = {
    Action.FREEZE: EventType.FREEZE,
    Action.LIVE_MIGRATE: EventType.FREEZE,
    Action.REBOOT: EventType.REBOOT,
    Action.REDEPLOY: EventType.REDEPLOY,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishing:
    """What a test says otherwise of an order."""

    notice: Length | None = None
    duration: Length | None = None
    """DurationInSeconds; -1 is unknown."""
    description: str | None = None
    at_once: int | None = None
    """Hosts of one order that are announced or worked on at once."""

    @property
    def seconds(self) -> int | None:
        """Return DurationInSeconds; None: as usual."""
        if self.duration is None:
            return None
        return -1 if self.duration == -1 else micros_of(self.duration) // SECOND

    @property
    def wishes(self) -> OrderOptions:
        """Return what an operator would say."""
        return OrderOptions(
            duration_seconds=self.seconds,
            description=self.description,
            at_once=self.at_once,
        )


def staging(
    event_type: EventType,
    source: EventSource,
    vms: Sequence[str],
    wanted: Wishing,
    *,
    migrates: bool = False,
) -> Decide:
    """Return the order for an event of any notice; none said is at once."""
    return lambda work: staged.stage(
        work,
        Staged(
            event_type=event_type,
            vms=tuple(vms),
            source=source,
            notice=micros_of(0 if wanted.notice is None else wanted.notice),
            duration_seconds=wanted.seconds,
            description=wanted.description,
            migrates=migrates,
        ),
    )


def restart(vms: Sequence[str], verb: Verb, wanted: Wishing) -> Decide:
    """Return the user's own order to reboot or redeploy VMs (5.3)."""
    if wanted.notice is None:
        return lambda work: verbs.restart(work, vms, verb, wanted.wishes)
    event_type = EventType.REBOOT if verb is Verb.REBOOT else EventType.REDEPLOY
    return staging(event_type, EventSource.USER, vms, wanted)


def evict(core: Core, vms: Sequence[str], wanted: Wishing) -> Decide:
    """Return the eviction of VMs (5.6), as if they were Spot VMs."""
    notice = wanted.notice
    if notice is None:
        notice = core.engine.policy.preempt_notice / SECOND
    wanted = Wishing(
        notice=notice, duration=wanted.duration, description=wanted.description
    )
    return staging(EventType.PREEMPT, EventSource.PLATFORM, vms, wanted)


def terminate(vms: Sequence[str], wanted: Wishing) -> Decide:
    """Return the user's order to delete VMs together (5.7)."""
    if wanted.notice is None:
        return lambda work: verbs.terminate(work, vms, wanted.wishes)
    return staging(EventType.TERMINATE, EventSource.USER, vms, wanted)


def maintain_vm(core: Core, vm: str, action: Action, wanted: Wishing) -> Decide:
    """Return the maintenance of a VM's host (5.2); with a notice, of the VM alone."""
    if wanted.notice is None:
        hosts = [host_of(core.engine, core.vm(vm).name)]
        return maintain(hosts, action, wanted)
    return staging(
        type_of(action),
        EventSource.PLATFORM,
        [vm],
        wanted,
        migrates=action is Action.LIVE_MIGRATE,
    )


def maintain(hosts: Sequence[str], action: Action, wanted: Wishing) -> Decide:
    """Return the maintenance of hosts, one after the other as the guard allows."""
    return lambda work: verbs.maintain(work, hosts, action, wanted.wishes)


def predict_failure(host: str, ahead: Length | None, wanted: Wishing) -> Decide:
    """Return the announcement that a host will fail (5.4)."""

    def decide(work: Work) -> Request:
        notice = work.policy.failure_notice if ahead is None else micros_of(ahead)
        return verbs.predict_failure(work, host, notice, wanted.wishes)

    return decide


def fail(name: str) -> Decide:
    """Return the report that a host or a VM is down (5.5)."""

    def decide(work: Work) -> Operation:
        if work.tx.get(Host, name) is not None:
            return failures.fail_host(work, name)
        return failures.fail_vm(work, name)

    return decide


def restore(name: str) -> Callable[[Work], object]:
    """Return the report that a host or a VM is up again."""

    def decide(work: Work) -> object:
        if work.tx.get(Host, name) is not None:
            return failures.restore_host(work, name)
        return failures.restore_vm(work, name)

    return decide


def host_names(reader: Reader) -> list[str]:
    """Return the names of all hosts."""
    return [host.name for host in every(reader, kinds.ALL_HOSTS)]


def made(core: Core, decide: Decide) -> list[StoredEvent]:
    """Give an order on the loop; return its events."""
    return core.events_of(core.ordered(decide))


def type_of(action: Action) -> EventType:
    """Return the event type of maintenance with this impact."""
    found = _TYPES.get(action)
    if found is None:
        raise RefusedError(f"maintenance has no impact {action.value}")
    return found


def action_of(impact: Impact) -> Action:
    """Return what maintenance with this impact does."""
    return Action(impact)


def event_type_of(name: str) -> EventType:
    """Return the event type with this name in any case; refuse what is none."""
    for each in EventType:
        if each.value.lower() == name.lower():
            return each
    raise unknown("event type", name, [each.value for each in EventType])


def type_or_any(name: str) -> EventType | None:
    """Return the event type with this name; None for no name, which is any."""
    return event_type_of(name) if name else None


def source_of(name: str | None, event_type: EventType) -> EventSource:
    """Return the source with this name, or the usual one of the type."""
    if name is None:
        is_user = event_type is EventType.TERMINATE
        return EventSource.USER if is_user else EventSource.PLATFORM
    for each in EventSource:
        if each.value.lower() == name.lower():
            return each
    raise unknown("source", name, [each.value for each in EventSource])
