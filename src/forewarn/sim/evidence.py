"""The requests that must not be forgotten, however many come after them.

A journal keeps the newest requests. Who asserts that something was not done, such as
a deviation or an approval, must know of all requests there were. So those that did it
are kept apart: the first ones, and of each kind the latest, which is enough to say for
any time and kind whether it happened.
"""

from collections.abc import Hashable, Iterable
from typing import Generic, Protocol, TypeVar


class Numbered(Protocol):
    """A request, with its place among all."""

    @property
    def number(self) -> int:
        """Return its number; none is used twice."""
        ...


Kept = TypeVar("Kept", bound=Numbered)

EVIDENCE_MAX = 10_000
"""Requests of one kind of deed that are kept as the first ones, at some 500 bytes each.
Of each VM and rule one more may be, and the latest."""


class Evidence(Generic[Kept]):
    """The requests that did something, the oldest first."""

    def __init__(self, *, most: int = EVIDENCE_MAX) -> None:
        """Keep the first `most`, and what is first or latest of its kind."""
        self._most = most
        self._first: list[Kept] = []
        self._latest: dict[Hashable, Kept] = {}

    def add(self, seen: Kept, kinds: Iterable[Hashable]) -> None:
        """Keep a request as the latest of its kinds, and if there is room for ever."""
        kinds = [*kinds]
        if len(self._first) < self._most or any(
            kind not in self._latest for kind in kinds
        ):
            self._first.append(seen)
        for kind in kinds:
            self._latest[kind] = seen

    def all(self) -> list[Kept]:
        """Return what is kept, the oldest first."""
        found = {seen.number: seen for seen in (*self._first, *self._latest.values())}
        return [found[number] for number in sorted(found)]

    def clear(self) -> None:
        """Forget all."""
        self._first.clear()
        self._latest.clear()
