"""Events without approval, summed up by tenant."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeAlias

from forewarn.instants import Micros, format_instant, instant_or_none
from forewarn.protocol.events import Event
from forewarn.protocol.operations import Operation
from forewarn.protocol.views import View
from forewarn.store import kinds
from forewarn.store.port import Reader, every

Json: TypeAlias = dict[str, Any]

EVENTS_MAX = 20_000
"""Maximum live events that are read: half a second's work. With more, the sums are
marked as incomplete."""


@dataclass(slots=True, kw_only=True)
class Wait:
    """The events of one tenant that wait for its approval."""

    tenant: str
    events: int = 0
    vms: set[str] = field(default_factory=set[str])
    hosts: set[str] = field(default_factory=set[str])
    scopes: set[str] = field(default_factory=set[str])
    since: Micros = 0
    """The time when the first of these events was announced."""
    not_before: Micros = 0
    """NotBefore of the first of these events."""

    @property
    def key(self) -> str:
        """Return the sort key: the longest wait first."""
        return f"{self.since:017d}.{self.tenant}"

    def take(self, event: Event, host: str) -> None:
        """Count one more event."""
        self.events += 1
        self.vms.update(resource.vm for resource in event.resources)
        self.hosts.update({host} - {""})
        self.scopes.add(event.scope)
        self.since = min(self.since or event.created, event.created)
        self.not_before = min(self.not_before or event.not_before, event.not_before)


def waits(reader: Reader, events: Iterable[Event]) -> list[Wait]:
    """Return the waits in these events by tenant, the longest first."""
    found: dict[str, Wait] = {}
    hosts: dict[str, str] = {}
    for event in events:
        if not event.awaits_approval:
            continue
        if event.operation not in hosts:
            operation = reader.get(Operation, event.operation)
            hosts[event.operation] = operation.host if operation else ""
        wait = found.setdefault(event.tenant, Wait(tenant=event.tenant))
        wait.take(event, hosts[event.operation])
    return sorted(found.values(), key=lambda wait: wait.key)


def live_events(reader: Reader) -> tuple[list[Event], bool]:
    """Return the live events, and whether they are complete."""
    found = list(islice(every(reader, kinds.LIVE_EVENTS), EVENTS_MAX + 1))
    return found[:EVENTS_MAX], len(found) <= EVENTS_MAX


def report(reader: Reader, wait: Wait) -> Json:
    """Return a tenant's wait with the state of its agents, as JSON.

    `last_poll` can be some minutes old, since the service stores it rarely.
    """
    views: list[View] = [
        view
        for scope in sorted(wait.scopes)
        for view in every(reader, kinds.VIEWS_OF_SCOPE, scope)
    ]
    enabled = {view.scope for view in views if view.is_enabled}
    return {
        "tenant": wait.tenant,
        "events": wait.events,
        "vms": len(wait.vms),
        "hosts": len(wait.hosts),
        "scopes": len(wait.scopes),
        "scopes_enabled": len(enabled),
        "enabled": bool(enabled),
        "since": format_instant(wait.since),
        "not_before": format_instant(wait.not_before),
        "last_poll": instant_or_none(
            max((view.last_seen for view in views), default=0)
        ),
    }


def sums(found: Iterable[Wait]) -> Json:
    """Return the sums of all waits."""
    every_one = list(found)
    return {
        "tenants": len(every_one),
        "events": sum(wait.events for wait in every_one),
        "vms": sum(len(wait.vms) for wait in every_one),
        "hosts": len({host for wait in every_one for host in wait.hosts}),
    }
