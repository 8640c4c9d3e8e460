"""The questions that a store can answer about the records of one kind.

A record is a frozen value with a `key` and a `revision`. A *query* finds records under
a value, a *range* by an instant, and a *ranking* in the order of a number. The memory
store runs these functions; an SQL store has a statement of the same name.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeAlias, TypeVar

from forewarn.instants import Micros


class Record(Protocol):
    """A value that a store can keep."""

    @property
    def key(self) -> str:
        """Return the key, which is unique among its kind."""
        ...

    @property
    def revision(self) -> int:
        """Return the number of replacements."""
        ...


R = TypeVar("R", bound=Record)


@dataclass(frozen=True, slots=True)
class Question(Generic[R]):
    """A question about the records of one kind."""

    name: str
    kind: type[R]


@dataclass(frozen=True, slots=True)
class Query(Question[R]):
    """A question for the records that are found under a value."""

    values: Callable[[R], Iterable[str]]

    def places(self, record: R) -> Iterable[tuple[str, int]]:
        """Return the values that the record is found under, with the number 0."""
        return [(value, 0) for value in self.values(record)]


@dataclass(frozen=True, slots=True)
class Range(Question[R]):
    """A question for the records with an instant at or before another."""

    instant: Callable[[R], Micros]
    """The instant of a record; 0: it is not in this range."""

    def places(self, record: R) -> Iterable[tuple[str, int]]:
        """Return the instant under the empty value, unless it is 0."""
        instant = self.instant(record)
        return [("", instant)] if instant else []


@dataclass(frozen=True, slots=True)
class Ranking(Question[R]):
    """A question for the records that are found under a value, ordered by a number."""

    places: Callable[[R], Iterable[tuple[str, int]]]
    """The values that the record is found under, each with its number. A record can have
    several numbers under a value, and is then found several times."""


AnyQuestion: TypeAlias = Query[R] | Range[R] | Ranking[R]


def everything(_record: Record) -> tuple[str, ...]:
    """Find every record under the empty value."""
    return ("",)
