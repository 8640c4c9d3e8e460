"""The maintenance windows of scopes, as JSON."""

from itertools import islice
from typing import Any, TypeAlias

from forewarn.fleet.model import Scope
from forewarn.fleet.window_fields import line_of
from forewarn.fleet.windows import openings
from forewarn.instants import Micros, format_instant

Json: TypeAlias = dict[str, Any]

OPENINGS_SHOWN = 3
"""Openings that a report names: enough to see a mistake in the days or the time zone."""


def windows_report(scope: Scope, *, now: Micros) -> Json:
    """Return the windows of a scope, and their next openings.

    Openings without a gap between them are one.
    """
    coming = openings(scope.maintenance_window, now)
    return {
        "scope": scope.name,
        "tenant": scope.tenant,
        "windows": [line_of(window) for window in scope.maintenance_window],
        "openings": [
            {
                "opens": format_instant(opening.opens),
                "closes": format_instant(opening.closes),
            }
            for opening in islice(coming, OPENINGS_SHOWN)
        ],
    }
