"""The values of a scenario file: each reader takes what TOML has for one key.

All raise ValueError with a sentence for the author. None knows where it stands.
"""

import enum
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar, cast

from forewarn.instants import SECOND, Micros, parse_duration
from forewarn.problems import did_you_mean, quoted
from forewarn.protocol.events import DURATION_UNKNOWN

T = TypeVar("T")
E = TypeVar("E", bound=enum.Enum)

TEXT_LENGTH_MAX = 2_000
"""Characters of a text: a description is read on a screen."""

NAMES_MAX = 1_000
"""Names of one step: as many as one order takes."""


class Keys:
    """The keys of one table: who has asked for all that it knows calls `close`."""

    def __init__(
        self, table: Mapping[str, object], blame: Callable[[str, str], None]
    ) -> None:
        """Read `table`; problems are told to `blame`, with their key."""
        self._table = table
        self._blame = blame
        self._known: list[str] = []

    def __contains__(self, key: str) -> bool:
        """Tell whether the key is there."""
        return key in self._table

    def take(self, key: str, read: Callable[[object], T], default: T) -> T:
        """Return what `read` makes of the key, or the default without it."""
        self._known.append(key)
        if key not in self._table:
            return default
        try:
            return read(self._table[key])
        except ValueError as error:
            self._blame(key, str(error))
            return default

    def need(self, key: str, read: Callable[[object], T], stand_in: T) -> T:
        """Return what `read` makes of the key, which must be there.

        `stand_in` goes on in its place where there is a problem.
        """
        if key not in self._table:
            self._known.append(key)
            self._blame(key, "is missing")
            return stand_in
        return self.take(key, read, stand_in)

    def blame(self, key: str, message: str) -> None:
        """Tell of a problem with a key."""
        self._blame(key, message)

    def close(self, others: Collection[str] = ()) -> list[str]:
        """Tell of the keys that nobody asked for, and return them.

        `others` might have been meant.
        """
        strange = [key for key in self._table if key not in self._known]
        for key in strange:
            meant = did_you_mean(key, [*self._known, *others])
            self._blame(key, f"there is no such key here{meant}")
        return strange


def text(value: object) -> str:
    """Return a text of one or more words, on one line or several."""
    if not isinstance(value, str):
        raise ValueError("must be a text in quotes")  # noqa: TRY004
    if not value.strip():
        raise ValueError("must not be empty")
    return any_text(value)


def any_text(value: object) -> str:
    """Return a text, which may be empty."""
    if not isinstance(value, str):
        raise ValueError("must be a text in quotes")  # noqa: TRY004
    if len(value) > TEXT_LENGTH_MAX:
        raise ValueError(f"must have at most {TEXT_LENGTH_MAX} characters")
    if not value.replace("\n", " ").isprintable():
        raise ValueError("must not contain control characters")
    return value


def name(value: object) -> str:
    """Return a name: one word."""
    found = text(value)
    if found != found.strip() or len(found.split()) > 1:
        raise ValueError(f"{quoted(found)} is not one word")
    return found


def names(value: object) -> tuple[str, ...]:
    """Return names: one as a text, or a list of them."""
    if isinstance(value, str):
        return (name(value),)
    found = cast("list[object]", value) if isinstance(value, list) else []
    if not found or not all(isinstance(each, str) for each in found):
        raise ValueError('must be a name or a list of names such as ["web_0"]')
    if len(found) > NAMES_MAX:
        raise ValueError(f"must have at most {NAMES_MAX} names")
    listed = tuple(name(each) for each in found)
    twice = next((each for each in listed if listed.count(each) > 1), None)
    if twice is not None:
        raise ValueError(f"names {quoted(twice)} twice")
    return listed


def all_or_names(value: object) -> tuple[str, ...]:
    """Return names, or none for `true`, which means all."""
    return () if value is True else names(value)


def duration(value: object) -> Micros:
    """Return a duration such as 15m."""
    if not isinstance(value, str):
        raise ValueError('must be a duration in quotes, such as "15m"')  # noqa: TRY004
    return parse_duration(value)


def delay(value: object) -> Micros:
    """Return the duration of a time that is counted from now: `+30m`."""
    if isinstance(value, str) and value.startswith("+"):
        return parse_duration(value[1:])
    raise ValueError('must be a time from now on, such as "+30m"')


def seconds(value: object) -> int:
    """Return whole seconds; the number -1 is an unknown duration (2.9)."""
    if type(value) is int and value == DURATION_UNKNOWN:
        return DURATION_UNKNOWN
    found = duration(value)
    if found % SECOND:
        raise ValueError("must be whole seconds")
    return found // SECOND


def switch(value: object) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise ValueError("must be true or false, without quotes")  # noqa: TRY004
    return value


def yes(value: object) -> bool:
    """Return true: the key is there to be said, or left out."""
    if value is not True:
        raise ValueError("must be true, or be left out")
    return True


def count(least: int, most: int) -> Callable[[object], int]:
    """Return a reader of whole numbers."""

    def read(value: object) -> int:
        if type(value) is not int or not least <= value <= most:
            raise ValueError(f"must be a whole number, {least} to {most}")
        return value

    return read


def number(least: float, most: float) -> Callable[[object], float]:
    """Return a reader of numbers."""

    def read(value: object) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool):
            found = float(value)
            if least <= found <= most:
                return found
        raise ValueError(f"must be a number, {least:g} to {most:g}")

    return read


def one_of(choices: Mapping[str, T]) -> Callable[[object], T]:
    """Return a reader of words that stand for values."""

    def read(value: object) -> T:
        if isinstance(value, str) and value in choices:
            return choices[value]
        known = ", ".join(choices)
        meant = did_you_mean(value, choices) if isinstance(value, str) else ""
        raise ValueError(f"must be one of {known}{meant}")

    return read


def member(kind: type[E]) -> Callable[[object], E]:
    """Return a reader of an enumeration's values."""
    return one_of({each.value: each for each in kind})


def table(value: object) -> Mapping[str, object]:
    """Return a table."""
    if not isinstance(value, dict):
        raise ValueError("must be a table")  # noqa: TRY004
    return cast("Mapping[str, object]", value)
