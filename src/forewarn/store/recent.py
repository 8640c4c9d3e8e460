"""A dictionary that keeps its latest entries."""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Generic, TypeVar, cast

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """A dictionary that keeps the latest entries: at least half of the limit.

    It has two parts. When the younger part has half of the maximum, it becomes the
    older part, and the former older part is dropped. Recording the last use of each
    entry would cost a twentieth of an approval.
    """

    def __init__(self, *, absent: V | None = None) -> None:
        """Start empty; with `absent`, this is kept instead of None."""
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}
        self._absent = absent

    def find(self, name: K) -> V | None:
        """Return the entry with this name, or None."""
        value = self._young.get(name)
        return self._old.get(name) if value is None else value

    def take(self, news: Mapping[K, V | None], limit: int) -> None:
        """Store entries, and remove those with None; keep at most `limit`."""
        gone = [name for name, value in news.items() if value is None]
        self._young.update(cast("Mapping[K, V]", news))
        for name in gone:
            if self._absent is not None:
                self._young[name] = self._absent
            else:
                del self._young[name]
                self._old.pop(name, None)
        half = limit // 2
        if len(self._young) > half:
            last = islice(self._young.items(), max(0, len(self._young) - limit), None)
            self._old = dict(last) if len(self._young) > limit else self._young
            self._young = {}

    def drop(self, names: Iterable[K]) -> None:
        """Remove the entries with these names, if there are any."""
        for name in names:
            self._young.pop(name, None)
            self._old.pop(name, None)

    def clear(self) -> None:
        """Remove all entries."""
        self._young = {}
        self._old = {}

    def __len__(self) -> int:
        """Return the number of entries, or slightly more: some may count twice."""
        return len(self._young) + len(self._old)
