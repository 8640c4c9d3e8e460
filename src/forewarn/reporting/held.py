"""Maintenance that windows, deferrals, blackouts and relays hold, with the time when each
ends. For operators."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

from forewarn.campaigns.record import CampaignRecord
from forewarn.control.rules import campaign_gate, waits, wide_blackouts
from forewarn.fleet.model import Scope
from forewarn.instants import Micros, instant_or_none
from forewarn.protocol.blockers import (
    AnyBlocker,
    Deferred,
    InBlackout,
    OutsideWindow,
    RelaySilent,
    WindowClosed,
)
from forewarn.protocol.operations import Operation, Request
from forewarn.reporting.campaigns import end_of
from forewarn.store import kinds
from forewarn.store.port import Reader, count, every
from forewarn.wording import operators

Json: TypeAlias = dict[str, Any]

SCOPES_MAX = 1_000
"""Maximum scopes with windows that are looked at: each takes two reads, and all of them a
tenth of a second."""

OPERATIONS_MAX = 5_000
"""Maximum held operations that are read: half a second's work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Hosts that one window, blackout or silent relay holds."""

    blocker: AnyBlocker
    tenant: str = ""
    """The tenant of the scope; empty: it is not of a scope."""
    campaign: str = ""
    """The campaign that is held; empty: work of no single one."""
    requests: frozenset[str] = frozenset()
    """The requests whose hosts a blackout of the service holds."""
    hosts: int
    until: Micros
    """When it ends; 0: it has no known end."""


def by_scopes(
    reader: Reader, *, scope: str = "", tenant: str = ""
) -> tuple[list[Held], bool]:
    """Return the windows and deferrals of scopes that hold maintenance, and whether they
    are complete.

    `scope` and `tenant` narrow them; empty: all.
    """
    all_held: list[Held] = []
    left = OPERATIONS_MAX
    for looked, limited in enumerate(_scopes(reader, scope)):
        if looked == SCOPES_MAX or left <= 0:
            return all_held, False
        if tenant not in {"", limited.tenant}:
            continue
        held = list(islice(_held(reader, limited.name), left))
        left -= len(held)
        for kind in (WindowClosed, Deferred):
            of_kind = [blocker for blocker in held if type(blocker) is kind]
            if of_kind:
                first = min(of_kind, key=end_of)
                all_held.append(
                    Held(
                        blocker=first,
                        tenant=limited.tenant,
                        hosts=len(of_kind),
                        until=end_of(first),
                    )
                )
    return all_held, left > 0


def _scopes(reader: Reader, name: str) -> Iterator[Scope]:
    """Yield the scopes that have a window, or whose tenants have made a choice."""
    if name:
        scope_record = reader.get(Scope, name)
        yield from [] if scope_record is None else [scope_record]
        return
    yield from every(reader, kinds.SCOPES_WITH_WINDOW)
    choices = islice(every(reader, kinds.ALL_CHOICES), OPERATIONS_MAX)
    for scope in dict.fromkeys(choice.scope for choice in choices if choice.until):
        scope_record = reader.get(Scope, scope)
        if scope_record is not None and not scope_record.maintenance_window:
            yield scope_record


def _held(reader: Reader, scope: str) -> Iterator[WindowClosed | Deferred]:
    """Yield the closed window or the deferral of a scope as each operation stored it that
    waits for it."""
    for name in (waits.turn_for_window(scope), waits.for_window(scope)):
        operation: Operation
        for operation in every(reader, kinds.OPERATIONS_THAT_WAIT, name):
            for blocker in operation.held_by:
                if (
                    isinstance(blocker, WindowClosed | Deferred)
                    and blocker.scope == scope
                ):
                    yield blocker


def by_campaigns(reader: Reader, *, now: Micros) -> list[Held]:
    """Return the windows and blackouts of campaigns that stop their announcements."""
    all_held = (
        _of_campaign(reader, campaign, now=now)
        for campaign in every(reader, kinds.CAMPAIGNS_OPEN)
    )
    return [holding for holding in all_held if holding is not None]


def _of_campaign(
    reader: Reader, campaign: CampaignRecord, *, now: Micros
) -> Held | None:
    request = reader.get(Request, campaign.request)
    assert request is not None, f"{campaign.campaign_id} has no rollout"
    answer = campaign_gate.ask(reader, request, campaign, now=now)
    hosts = max(0, campaign.left - request.in_flight)
    match answer.blocker:
        case OutsideWindow() | InBlackout() as blocker if hosts:
            return Held(
                blocker=blocker,
                campaign=campaign.name,
                hosts=hosts,
                until=answer.look_at,
            )
        case _:
            return None


def by_blackouts(reader: Reader, *, now: Micros) -> list[Held]:
    """Return the blackouts of the service that hold rollouts and their announced hosts.

    The first host of a rollout waits for all of them.
    """
    hosts = Counter[str]()
    requests: dict[str, set[str]] = {}
    blockers: dict[str, InBlackout] = {}
    names = [waits.TURN_BLACKOUTS]
    for blackout in wide_blackouts.all_of(reader):
        names += (
            waits.for_blackout(blackout.name),
            waits.turn_for_blackout(blackout.name),
        )
    operations: Iterator[Operation] = (
        operation
        for name in names
        for operation in every(reader, kinds.OPERATIONS_THAT_WAIT, name)
    )
    for operation in islice(operations, OPERATIONS_MAX):
        is_first = waits.TURN_BLACKOUTS in operation.waits_for
        for blocker in operation.held_by:
            if isinstance(blocker, InBlackout) and not blocker.campaign:
                blockers.setdefault(blocker.blackout, blocker)
                requests.setdefault(blocker.blackout, set()).add(operation.request)
                hosts[blocker.blackout] += (
                    _planned(reader, operation.request) if is_first else 1
                )
                break
    return [
        Held(
            blocker=blocker,
            hosts=hosts[name],
            until=blocker.ends,
            requests=frozenset(requests[name]),
        )
        for name, blocker in blockers.items()
        if not blocker.ends or blocker.ends > now
    ]


def by_relays(reader: Reader) -> list[Held]:
    """Return the silent relays that hold announced hosts. They have no known end."""
    all_held: list[Held] = []
    for link in every(reader, kinds.ALL_RELAY_LINKS):
        name = waits.for_relay(link.host)
        held = list(
            islice(every(reader, kinds.OPERATIONS_THAT_WAIT, name), OPERATIONS_MAX)
        )
        blockers = (blocker for operation in held for blocker in operation.held_by)
        ours = (
            blocker
            for blocker in blockers
            if isinstance(blocker, RelaySilent) and blocker.host == link.host
        )
        if (blocker := next(ours, None)) is not None:
            all_held.append(Held(blocker=blocker, hosts=len(held), until=0))
    return all_held


def _planned(reader: Reader, request: str) -> int:
    return count(reader, kinds.PLANNED_OF_REQUEST, request, limit=OPERATIONS_MAX)


def held_report(held: Held) -> Json:
    """Return a window, blackout or silent relay with the hosts that it holds."""
    names: Mapping[str, str] = {
        key: getattr(held.blocker, key, "") for key in ("scope", "blackout")
    }
    return {
        "kind": held.blocker.kind,
        **{key: name or None for key, name in names.items()},
        "relay": held.blocker.host if isinstance(held.blocker, RelaySilent) else None,
        "campaign": held.campaign or None,
        "tenant": held.tenant or None,
        "hosts": held.hosts,
        "until": instant_or_none(held.until),
        "text": operators.reason(held.blocker),
    }


def in_order(found: list[Held]) -> list[Held]:
    """Return holds in the order of their ends; those without one are last."""
    return sorted(found, key=lambda hold: (not hold.until, hold.until))
