"""The holds that the availability of VMs shows next to the past: when maintenance waits.

These are the brake, the current or next time of each blackout of the service, and the next
opening of the maintenance windows of the VMs' scopes. The reader of a tenant shows it the
windows of its own scopes only.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, TypeAlias

from forewarn.control.rules import brake, wide_blackouts
from forewarn.fleet.blackouts import coming
from forewarn.fleet.model import Scope
from forewarn.fleet.windows import openings
from forewarn.instants import Micros, instant_or_none
from forewarn.store.port import Reader
from forewarn.store.records import BRAKE_KEY, Brake
from forewarn.wording import holds, operators

Json: TypeAlias = dict[str, Any]

SCOPES_MAX = 200
"""Maximum scopes whose windows are read: one row each, and a tenth of a millisecond for
its openings."""

BLACKOUTS_MAX = 50
"""Maximum blackouts that are shown: lines for people."""


def coming_holds(reader: Reader, scopes: Iterable[str], *, now: Micros) -> list[Json]:
    """Return what holds the maintenance of VMs in these scopes now, or will hold it."""
    names = islice(dict.fromkeys(scopes), SCOPES_MAX)
    return [
        *_of_brake(reader),
        *_of_blackouts(reader, now=now),
        *(
            window
            for name in names
            if (scope := reader.get(Scope, name)) is not None
            for window in _of_windows(scope, now=now)
        ),
    ]


def _of_brake(reader: Reader) -> Iterator[Json]:
    current = reader.get(Brake, BRAKE_KEY)
    if current is not None:
        why = operators.reason(brake.blocker_of(current))
        yield _hold("brake", "", begins=current.since, ends=current.due_at, message=why)


def _of_blackouts(reader: Reader, *, now: Micros) -> Iterator[Json]:
    for blackout in islice(wide_blackouts.all_of(reader), BLACKOUTS_MAX):
        time = next(coming([blackout.time], now, now), None)
        if time is not None:
            yield _hold(
                "blackout",
                blackout.name,
                begins=time.begins,
                ends=time.ends,
                message=holds.coming_blackout(
                    blackout.name, blackout.places, time.begins, time.ends
                ),
            )


def _of_windows(scope: Scope, *, now: Micros) -> Iterator[Json]:
    opening = next(openings(scope.maintenance_window, now), None)
    if scope.maintenance_window and opening is not None:
        yield _hold(
            "window",
            scope.name,
            begins=opening.opens,
            ends=opening.closes,
            message=holds.coming_window(scope.name, opening.opens, opening.closes),
        )


def _hold(kind: str, name: str, *, begins: Micros, ends: Micros, message: str) -> Json:
    return {
        "kind": kind,
        "name": name,
        "begins": instant_or_none(begins),
        "ends": instant_or_none(ends),
        "message": message,
    }
