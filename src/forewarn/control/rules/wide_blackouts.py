"""The blackouts of the service: when no planned work is announced or started.

They stop what the brake stops: maintenance, OS upgrades and reimages. Emergency work,
failures, predicted failures and requests of users continue. A blackout is a rule with a
time zone, so each check computes its times again from its `now`: steps of the clock,
restarts and changed zones need no repair. This module only reads.
"""

from collections.abc import Collection, Iterator, Sequence

from forewarn.campaigns.part_blackouts import PartBlackout
from forewarn.campaigns.record import CampaignRecord
from forewarn.fleet.blackouts import Blackout, clash
from forewarn.fleet.calendars import Calendar
from forewarn.fleet.model import LABEL, Host, places_of
from forewarn.instants import Micros
from forewarn.protocol.blockers import InBlackout
from forewarn.protocol.operations import Operation, Request
from forewarn.protocol.verbs import PLANNED_VERBS
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.store.wide_blackouts import WideBlackout


def all_of(reader: Reader) -> list[WideBlackout]:
    """Return all blackouts of the service, in the order of their names."""
    return list(every(reader, kinds.ALL_BLACKOUTS))


def of_fleet(reader: Reader) -> tuple[Blackout, ...]:
    """Return when all planned work of the fleet is stopped."""
    return tuple(blackout.time for blackout in all_of(reader) if blackout.is_of_fleet)


def of_parts(reader: Reader) -> tuple[PartBlackout, ...]:
    """Return when the planned work of parts of the fleet is stopped."""
    return tuple(
        PartBlackout(time=blackout.time, places=tuple(map(_place, blackout.places)))
        for blackout in all_of(reader)
        if not blackout.is_of_fleet
    )


def _place(place: str) -> tuple[str, str]:
    """Return the property or label of a place, and its value."""
    kind, _, name = place.partition("=")
    if kind == LABEL:
        kind, _, name = name.partition("=")
    return kind, name


def is_stopped(operation: Operation) -> bool:
    """Return whether blackouts stop an operation: it is planned work."""
    return operation.verb in PLANNED_VERBS and not operation.is_emergency


def over(reader: Reader, operation: Operation) -> tuple[Blackout, ...]:
    """Return the blackouts that stop an operation."""
    return of_host(reader, operation.host) if is_stopped(operation) else ()


def of_host(reader: Reader, host: str) -> tuple[Blackout, ...]:
    """Return the blackouts of the host with this name."""
    blackouts = all_of(reader)
    places: Collection[str] = ()
    if not all(blackout.is_of_fleet for blackout in blackouts):
        stored = reader.get(Host, host)
        places = frozenset(() if stored is None else places_of(stored))
    return tuple(blackout.time for blackout in blackouts if blackout.covers(places))


def work_of(reader: Reader, operation: Operation) -> Micros:
    """Return the time from its start on in which an operation must avoid blackouts.

    A campaign has measured it; other work only begins outside of them.
    """
    request = reader.get(Request, operation.request) if operation.request else None
    if request is None or not request.campaign:
        return 0
    campaign = reader.get(CampaignRecord, request.campaign)
    return 0 if campaign is None else campaign.slow


def in_force(reader: Reader, operation: Operation, *, now: Micros) -> InBlackout | None:
    """Return the blackout in which an operation is now; None: in none."""
    return why_at(over(reader, operation), now, now)


def why_at(
    blackouts: Sequence[Blackout], start: Micros, end: Micros
) -> InBlackout | None:
    """Return the first blackout that overlaps a time, with the end of all that follow it
    at once."""
    blackout = clash(blackouts, start, end)
    if blackout is None:
        return None
    free = Calendar((), start, blackouts).next_start(start, end - start)
    return InBlackout(blackout=blackout.name, ends=free or 0)


def stopped_by(
    reader: Reader, operation: Operation, *, now: Micros
) -> Iterator[InBlackout]:
    """Yield why announced work would not start at its time: a blackout that overlaps it."""
    start = max(now, operation.not_before)
    work = work_of(reader, operation)
    blocker = why_at(over(reader, operation), start, start + work)
    if blocker is not None:
        yield blocker
