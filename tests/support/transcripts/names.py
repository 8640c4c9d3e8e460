"""Short names for what has random ids: `op1`, `e1`, `ro1`, in order of appearance.

A story reads better with them, and a command can name what has appeared.
"""

import re
from collections import Counter

_IDS = re.compile(
    r"\b(?:op|ro|rq)-(?:[0-9a-z]{10}|[0-9a-z]{16}|[0-9a-z]{20})\b"
    r"|\b[0-9A-F]{8}(?:-[0-9A-F]{4}){3}-[0-9A-F]{12}\b"
)
_PREFIXES = frozenset({"op", "ro", "rq"})
_EVENT = "e"


class Names:
    """The names of one story, both ways."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._names: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        self._count: Counter[str] = Counter()

    def meet(self, identifier: str) -> str:
        """Return the name of what has this id; at first sight it gets one."""
        name = self._names.get(identifier)
        if name is None:
            start, _, _ = identifier.partition("-")
            prefix = start if start in _PREFIXES else _EVENT
            self._count[prefix] += 1
            name = f"{prefix}{self._count[prefix]}"
            self._names[identifier] = name
            self._ids[name] = identifier
        return name

    def said(self, text: str) -> str:
        """Return `text` with names instead of the IDs that have appeared."""
        return _IDS.sub(lambda found: self._names.get(found[0], found[0]), text)

    def meant(self, word: str) -> str:
        """Return the id that a name stands for; other words as they are."""
        return self._ids.get(word, word)

    def is_event(self, word: str) -> bool:
        """Return whether the word names an event that was met."""
        return word in self._ids and word.removeprefix(_EVENT).isdigit()

    def place(self, identifier: str) -> int:
        """Return how early the id was met, for sorting."""
        self.meet(identifier)
        return list(self._names).index(identifier)
