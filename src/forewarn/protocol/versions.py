"""The api-versions of scheduledevents, and their differences (clauses 1.3 to 1.6).

The list is for this endpoint only. The instance endpoint has its own list.
"""

from __future__ import annotations

from dataclasses import field

from forewarn.protocol.events import EventType
from forewarn.protocol.frozen import frozen_dataclass


@frozen_dataclass
class ApiVersion:
    """One api-version: what it enforces, hides and shows."""

    name: str
    """The text after `api-version=`."""
    order: int
    """Index in `VERSIONS`, for lists with one entry per version."""
    underscore: bool = False
    """Whether names of resources start with `_` (clause 1.4)."""
    header_enforced: bool = True
    """Whether the header `Metadata: true` is required (clause 1.6)."""
    hidden: frozenset[EventType] = field(default_factory=frozenset[EventType])
    """Later event types, which documents of this version omit (clause 1.5)."""
    description: bool = True
    source: bool = True
    duration: bool = True


_NO_TERMINATE = frozenset({EventType.TERMINATE})
_NO_DELETION = frozenset({EventType.PREEMPT, EventType.TERMINATE})

VERSIONS = (
    ApiVersion(
        name="2017-03-01",
        order=0,
        underscore=True,
        header_enforced=False,
        hidden=_NO_DELETION,
        description=False,
        source=False,
        duration=False,
    ),
    ApiVersion(
        name="2017-08-01",
        order=1,
        hidden=_NO_DELETION,
        description=False,
        source=False,
        duration=False,
    ),
    ApiVersion(
        name="2017-11-01",
        order=2,
        hidden=_NO_TERMINATE,
        description=False,
        source=False,
        duration=False,
    ),
    ApiVersion(
        name="2019-01-01", order=3, description=False, source=False, duration=False
    ),
    ApiVersion(name="2019-04-01", order=4, source=False, duration=False),
    ApiVersion(name="2019-08-01", order=5, duration=False),
    ApiVersion(name="2020-07-01", order=6),
)
"""All versions, oldest first."""

NEWEST = VERSIONS[-1]

NEWEST_NAMES = tuple(version.name for version in reversed(VERSIONS[-3:]))
"""The `newest-versions` of an error: three, newest first (clause 1.8)."""

_BY_NAME = {version.name: version for version in VERSIONS}


def parse(text: str) -> ApiVersion | None:
    """Return the version with exactly this name, or None (clause 1.3)."""
    return _BY_NAME.get(text)
