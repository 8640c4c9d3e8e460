"""What the operator API says of itself in a scrape, in whichever process it runs."""

import resource
from collections.abc import Iterable, Mapping
from pathlib import Path

from forewarn.admin.metrics import Reading
from forewarn.service import metric_definitions
from forewarn.service.admin_door import Door

_STATM = Path("/proc/self/statm")


def of_api(
    door: Door | None, answered: Mapping[str, int], watchers: int
) -> Iterable[Reading]:
    """Yield what the API has counted."""
    yield Reading(metric_definitions.ADMIN_RESPONSES, dict(answered))
    yield Reading(metric_definitions.WATCHERS, watchers)
    yield Reading(
        metric_definitions.ADMIN_CONNECTIONS, 0 if door is None else door.open
    )
    refused = {} if door is None else dict(door.refused)
    yield Reading(metric_definitions.ADMIN_CONNECTIONS_REFUSED, refused)
    yield Reading(metric_definitions.ADMIN_MEMORY, resident_bytes())


def resident_bytes() -> int:
    """Return the memory of this process."""
    pages = int(_STATM.read_text("ascii").split()[1])
    return pages * resource.getpagesize()
