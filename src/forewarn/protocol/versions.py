"""The api-versions of scheduledevents, and what each of them can say.

One row for each version (clauses 1.3 to 1.6). The list belongs to this endpoint
alone: the instance endpoint has another, and neither knows the other's.
"""

from __future__ import annotations

from dataclasses import field

from forewarn.protocol.events import EventType
from forewarn.protocol.frozen import frozen_dataclass


@frozen_dataclass
class ApiVersion:
    """One version, as the rules need it: what it enforces, hides and shows."""

    name: str
    """As it is written after `api-version=`."""
    order: int
    """Its place in `VERSIONS`, so that a list can be kept with one entry each."""
    underscore: bool = False
    """Names of resources carry one leading `_` (clause 1.4)."""
    header_enforced: bool = True
    """`Metadata: true` is asked for (clause 1.6)."""
    hidden: frozenset[EventType] = field(default_factory=frozenset[EventType])
    """Types that came after it: events of them are left out (clause 1.5)."""
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
"""Every version, oldest first."""

NEWEST = VERSIONS[-1]

NEWEST_NAMES = tuple(version.name for version in reversed(VERSIONS[-3:]))
"""What an error offers as `newest-versions`: three, newest first (clause 1.8)."""

_BY_NAME = {version.name: version for version in VERSIONS}


def parse(text: str) -> ApiVersion | None:
    """Return the version called exactly `text`, or None: no guesses (1.3)."""
    return _BY_NAME.get(text)
