"""The earliest instants of ranges, as far as the writer knows them.

The control thread asks for the next timer after each iteration. With one writer, an answer
stays right until a write changes the instant of a record, and most writes keep or lower
it without a new question.
"""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from forewarn.instants import Micros
from forewarn.protocol.views import View
from forewarn.store import kinds
from forewarn.store.questions import Range, Record

Known = dict[str, "Micros | None"]
"""The earliest instant by the name of a range; None: no record has an instant. A range
without an entry was not asked for."""


_RANGES: list[Range[Any]] = [
    value for value in vars(kinds).values() if isinstance(value, Range)
]

RANGES_OF: Mapping[type, tuple[Range[Any], ...]] = {
    kind: tuple(range_ for range_ in _RANGES if range_.kind is kind)
    for kind in {range_.kind for range_ in _RANGES}
}


VIEW_FIELDS = "due_at", "last_seen", "state"
"""The fields on which the instants of a view depend. Its document changes much more often."""

_look_at_view = attrgetter(*VIEW_FIELDS)


class Earliest:
    """The earliest instants that a transaction knows: committed ones, and its own."""

    def __init__(self, committed: Mapping[str, Micros | None]) -> None:
        """Begin with what is known of the committed records."""
        self._committed = committed
        self.news: Known = {}
        """New knowledge, for `committed` after the commit."""
        self.forgotten: set[str] = set()
        """Ranges that must be asked for again."""

    def knows(self, name: str) -> bool:
        """Return whether the earliest instant of a range is known."""
        return name not in self.forgotten and (
            name in self.news or name in self._committed
        )

    def of(self, name: str) -> Micros | None:
        """Return the earliest instant of a range that is known."""
        return self.news[name] if name in self.news else self._committed[name]

    def remember(self, name: str, instant: Micros | None) -> None:
        """Note the answer to a question."""
        self.news[name] = instant
        self.forgotten.discard(name)

    def follow(self, old: Record | None, new: Record | None) -> None:
        """Note a write of a record."""
        are_views = isinstance(old, View) and isinstance(new, View)
        if are_views and _look_at_view(old) == _look_at_view(new):
            return
        for over in RANGES_OF.get(type(new if old is None else old), ()):
            before = over.instant(old) if old is not None else 0
            after = over.instant(new) if new is not None else 0
            if before != after and self.knows(over.name):
                self._move(over.name, before, after)

    def _move(self, name: str, before: Micros, after: Micros) -> None:
        earliest = self.of(name)
        if after and (earliest is None or after <= earliest):
            self.news[name] = after
        elif before and before == earliest:
            # Another record can have the same instant, or the next one.
            self.news.pop(name, None)
            self.forgotten.add(name)
