"""The objects of a watched list, as its stream of changes tells them."""

from collections.abc import Sequence
from itertools import chain, islice
from typing import Any

from forewarn.cli.client import Json
from forewarn.cli.listings import Listing
from forewarn.cli.selecting import concerns
from forewarn.cli.tables import counts
from forewarn.instants import DAY, SECOND, Micros, format_instant

ENDED_MAX = 1_000
"""Maximum ended objects with a row; older ones are removed."""

LOST, BACK = "lost", "back"
"""Messages about the stream itself: it broke, and it continues."""

_TIME = slice(len("2026-11-21T"), None)
_DATE = slice(len("2026-11-21"))


class ListState:
    """The objects of a list in their last state, with the times of their changes."""

    def __init__(
        self, listing: Listing, *, state: str = "", names: frozenset[str] | None = None
    ) -> None:
        """Begin empty; show only objects in this state and with these names."""
        self.listing = listing
        self._state = state
        self._names = names
        self.changed: Micros | None = None
        """The time of the last change; None if no object has one."""
        self.note = ""
        """The state of the stream: broken, or running again since a time."""
        self.version = 0
        """Increases with everything that can change the picture."""
        self._objects: dict[str, Json] = {}
        self._times: dict[str, Micros] = {}
        """The time of the last change of each object, the latest last. Before the first
        change that the stream sends, it is the time that the service knows."""
        self._now: Micros = 0
        """The time of the last message."""
        self._ended: dict[str, None] = {}
        self._listed: set[str] = set()
        """The objects that the stream has sent since it began."""
        self.is_ready = False
        """Whether all current objects have come at least once."""

    def take(self, name: str, data: Any, *, now: Micros) -> bool:
        """Process a message; return whether an object looks different now."""
        self.version += 1
        self._now = now
        if name == self.listing.path:
            return self._object(data, now)
        if name == "ready":
            self._settle()
        elif name == LOST:
            self.note = f"{data}; trying again"
        elif name == BACK:
            self.note = f"the service was away until {_clock_time(now)}"
        else:
            # Everything is sent once more.
            self._listed.clear()
        return False

    def wants(self, object_: Json) -> bool:
        """Return whether an object is shown."""
        is_state = self._state in {"", str(object_[self.listing.state]).lower()}
        return is_state and concerns(object_, self._names)

    def _object(self, object_: Json, now: Micros) -> bool:
        key = object_[self.listing.key]
        before = self._objects.get(key)
        is_over = bool(object_.get(self.listing.ended))
        if not self.wants(object_) or (is_over and not self.listing.keeps_ended):
            if before is not None:
                self._forget(key)
                self.changed = now
            return False
        self._objects[key] = object_
        self._listed.add(key)
        if before is not None and _looks(before) == _looks(object_):
            return False
        if self.is_ready:
            self._times.pop(key, None)
            self._times[key] = self.changed = now
        elif at := self.listing.changed(object_):
            self._times[key] = at
        if is_over:
            self._ended[key] = None
            if len(self._ended) > ENDED_MAX:
                self._forget(next(iter(self._ended)))
        return True

    def _settle(self) -> None:
        """Remove the objects that ended while the stream was broken."""
        for key in self._objects.keys() - self._listed - self._ended.keys():
            self._forget(key)
        if not self.is_ready:
            by_time = sorted(self._times.items(), key=lambda item: item[1])
            self._times = dict(by_time)
            self.changed = max(self._times.values(), default=None)
        self.is_ready = True

    def _forget(self, key: str) -> None:
        del self._objects[key]
        self._times.pop(key, None)
        self._ended.pop(key, None)

    def states(self) -> str:
        """Return the number of objects in each state."""
        return counts(object_[self.listing.state] for object_ in self._objects.values())

    def shown(self, limit: int) -> tuple[list[Json], int]:
        """Return the objects to show, and the number of others.

        Those that changed last are shown, or the most urgent ones if the list has an order
        of urgency.
        """
        limit = max(limit, 0)
        if self.listing.urgency:
            objects = self.listing.sorted(self._objects.values())
            return objects[:limit], len(objects[limit:])
        quiet = (key for key in self._objects if key not in self._times)
        keys = list(islice(chain(reversed(self._times), quiet), limit))
        return [self._objects[key] for key in keys], len(self._objects) - len(keys)

    def cells(self, object_: Json) -> Sequence[str]:
        """Return the cells of an object, with the time of its change."""
        first, state, *rest = self.listing.row(object_)
        return (
            first,
            state,
            self.moment(self._times.get(object_[self.listing.key])),
            *rest,
        )

    def moment(self, at: Micros | None) -> str:
        """Return a time of today as a clock shows it, and the date of another day."""
        if at is None:
            return "-"
        is_today = at // DAY == self._now // DAY
        return _clock_time(at) if is_today else format_instant(at)[_DATE]


def _looks(object_: Json) -> Json:
    """Return an object without the reasons that change with the time."""
    return {**object_, "blocked_by": [], "blockers": []}


def _clock_time(at: Micros) -> str:
    return format_instant(at - at % SECOND)[_TIME]
