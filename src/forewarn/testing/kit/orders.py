"""The requests of tests. They use the verbs of the operator, with the same names.

If a test gives a `notice`, the world injects an event instead. So it can show an event
that the rules of notice forbid, such as a Reboot in two seconds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from forewarn.control.requests.verbs import DECISIONS
from forewarn.control.requests.verbs.changes import CHANGES
from forewarn.control.rules.maintenance import MAINTENANCE
from forewarn.control.transactions.work import Work
from forewarn.instants import SECOND
from forewarn.protocol.errors import NotFoundError, RefusedError
from forewarn.protocol.events import Event as StoredEvent
from forewarn.protocol.events import EventSource, EventType
from forewarn.protocol.operations import Action, Verb
from forewarn.settings.forms import from_toml
from forewarn.sim import staged
from forewarn.sim.scenario import doing, steps
from forewarn.sim.scenario.model import Order
from forewarn.sim.staged import Staged
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.testing.kit.core import Core
from forewarn.testing.kit.durations import Length, micros_of
from forewarn.testing.kit.forms import unknown
from forewarn.testing.kit.setup import host_of
from forewarn.verbs.model import Value, VerbRequest
from forewarn.verbs.table import VERBS

Impact: TypeAlias = Literal["freeze", "live-migrate", "reboot", "redeploy"]
"""The impact of a host's maintenance on its VMs."""

OTHER_VERBS = (
    "For campaigns, the brake and blackouts, run `forewarn` with the world's api_url in "
    "FOREWARN_URL."
)
"""The hint about verbs that are not about hosts or VMs."""

Decide: TypeAlias = Callable[[Work], Any]
"""A decision in a transaction. It returns the ID of the request that it makes, if
any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOptions:
    """The options of a request by a test."""

    notice: Length | None = None
    duration: Length | None = None
    """DurationInSeconds; -1 means unknown."""
    description: str | None = None
    at_once: int | None = None
    """Maximum number of hosts of one request that are in maintenance at once."""

    @property
    def seconds(self) -> int | None:
        """Return DurationInSeconds; None for the default."""
        if self.duration is None:
            return None
        return -1 if self.duration == -1 else micros_of(self.duration) // SECOND

    @property
    def values(self) -> dict[str, Value]:
        """Return the arguments of the operator's verb."""
        values_set: dict[str, Value | None] = {
            "duration": self.seconds,
            "description": self.description,
            "at_once": self.at_once,
        }
        return {key: value for key, value in values_set.items() if value is not None}


def staging(
    event_type: EventType,
    source: EventSource,
    vms: Sequence[str],
    wanted: RequestOptions,
    *,
    migrates: bool = False,
) -> Decide:
    """Return a request that injects an event with any notice, by default none."""
    return lambda work: (
        staged.inject(
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
        ).request_id
    )


def change_vms(
    core: Core, vms: Sequence[str], verb: Verb, wanted: RequestOptions
) -> Decide:
    """Return a request about VMs; with a notice, and for an eviction, inject an event.

    So a test can also evict VMs that are not Spot VMs (5.6).
    """
    notice = wanted.notice
    if notice is None and verb is Verb.EVICT:
        notice = core.engine.policy.preempt_notice / SECOND
    if notice is None:
        return ordering(verb.value, vms, wanted)
    change = CHANGES[verb]
    return staging(
        change.event_type, change.source, vms, replace(wanted, notice=notice)
    )


def ordering(
    verb: str, targets: Sequence[str], wanted: RequestOptions, **more: Value
) -> Decide:
    """Return the request of a verb of the table."""
    request = VerbRequest(targets=tuple(targets), values={**wanted.values, **more})
    return lambda work: DECISIONS[verb](work, request)


def written(
    verb: str, targets: Sequence[str], arguments: Mapping[str, object]
) -> Decide:
    """Return the request of a verb, with arguments as in a step of a scenario."""
    entry = VERBS.get(verb)
    if entry is None or not entry.targets.in_fleet:
        known = [name for name, kind in VERBS.items() if kind.targets.in_fleet]
        error = unknown("verb", verb, known)
        raise NotFoundError(error.message, hint=OTHER_VERBS)

    options = steps.ARGUMENTS[verb]
    values: dict[str, Value] = {}
    for key, value in arguments.items():
        if key not in options:
            raise unknown("argument", key, options)
        try:
            values[key] = from_toml(options[key], value)
        except ValueError as error:
            raise RefusedError(f"{key} {error}") from error
    missing = [key for key in options if options[key].is_needed and key not in values]
    if missing:
        raise RefusedError(f"{verb} needs {missing[0]}")
    order = Order(verb=verb, targets=tuple(targets), values=values)
    return doing.deciding(order, lambda ahead: ahead)


def maintain_vm(core: Core, vm: str, action: Action, wanted: RequestOptions) -> Decide:
    """Return the maintenance of a VM's host (5.2); with a notice, of the VM only."""
    if wanted.notice is None:
        return maintain([host_of(core.engine, core.vm(vm).name)], action, wanted)
    return staging(
        type_of(action),
        EventSource.PLATFORM,
        [vm],
        wanted,
        migrates=action is Action.LIVE_MIGRATE,
    )


def maintain(hosts: Sequence[str], action: Action, wanted: RequestOptions) -> Decide:
    """Return the maintenance of hosts, one after another as the guard allows."""
    return ordering("maintain", hosts, wanted, impact=action.value)


def predict_failure(host: str, ahead: Length | None, wanted: RequestOptions) -> Decide:
    """Return the announcement of a predicted host failure (5.4)."""
    more = {} if ahead is None else {"in": micros_of(ahead)}
    return ordering("predict-failure", [host], wanted, **more)


def host_names(reader: Reader) -> list[str]:
    """Return the names of all hosts."""
    return [host.name for host in every(reader, kinds.ALL_HOSTS)]


def made(core: Core, decide: Decide) -> list[StoredEvent]:
    """Make a request, on the loop; return its events."""
    request = core.ordered(decide)
    return core.events_of(request) if isinstance(request, str) else []


def type_of(action: Action) -> EventType:
    """Return the event type of maintenance with this impact."""
    kind = MAINTENANCE.get(action)
    if kind is None:
        raise RefusedError(f"maintenance has no impact {action.value}")
    return kind.event_type


def event_type_of(name: str) -> EventType:
    """Return the event type with this name in any case; raises NotFoundError."""
    for event_type in EventType:
        if event_type.value.lower() == name.lower():
            return event_type
    raise unknown("event type", name, [kind.value for kind in EventType])


def type_or_any(name: str) -> EventType | None:
    """Return the event type with this name; None for an empty name."""
    return event_type_of(name) if name else None


def source_of(name: str | None, event_type: EventType) -> EventSource:
    """Return the source with this name, or the usual one of the event type."""
    if name is None:
        is_user = event_type is EventType.TERMINATE
        return EventSource.USER if is_user else EventSource.PLATFORM
    for source in EventSource:
        if source.value.lower() == name.lower():
            return source
    raise unknown("source", name, [source_.value for source_ in EventSource])
