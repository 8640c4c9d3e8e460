"""What the operator API may ask of the control plane, from its own thread.

The service implements it over the thread that the plane lives in; a world on a
virtual clock implements it directly.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from forewarn.control.requests.idempotency import Once
from forewarn.control.transactions.work import Who, Work
from forewarn.fleet.file import FleetText
from forewarn.fleet.merge import MergePlan
from forewarn.instants import Micros
from forewarn.protocol.errors import ForewarnError
from forewarn.store.port import Reader

T = TypeVar("T")


class BusyError(ForewarnError):
    """Too much waits for the control plane; ask again in a moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Whether the service does its work."""

    alive: bool
    """The ticker turns: false means that the process should be restarted."""
    ready: bool
    """It may take orders: the store works and everything is published."""
    problems: tuple[str, ...] = ()


class CallerGateway(Protocol):
    """The operator API's access to the plane on behalf of one caller."""

    async def order(self, who: Who, decide: Callable[[Work], T]) -> T:
        """Carry out one order; raises what `decide` raises, and BusyError."""
        ...

    async def read(self, ask: Callable[[Reader], T]) -> T:
        """Read from a consistent view of the store, off the plane's thread."""
        ...

    async def count_fleet(self, text: FleetText) -> Mapping[str, int]:
        """Return how many objects of each kind a fleet file has.

        Raises FleetFileError.
        """
        ...

    async def merge_fleet(
        self, text: FleetText, *, who: Who | None, once: Once | None = None
    ) -> MergePlan:
        """Apply a fleet file for `who`, and return what was changed.

        For nobody it is only planned. Raises FleetFileError, RefusedError, BusyError,
        and RepeatedError for an order that came before; then nothing is changed.
        """
        ...

    def now(self) -> Micros:
        """Return the model time."""
        ...

    async def health(self) -> Health:
        """Tell whether the ticker and the store work."""
        ...


class OperatorGateway(CallerGateway, Protocol):
    """The operator API's access to the plane, with a feed of all changes."""

    def changes(self) -> AsyncIterator[tuple[str, ...]]:
        """Yield ids of operations that changed, from now on.

        May repeat; a reader that is too slow gets an empty tuple, which means
        that it must read everything anew.
        """
        ...
