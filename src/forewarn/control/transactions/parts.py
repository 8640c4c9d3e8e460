"""Orders about several targets, of which some may be refused."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from forewarn.protocol.errors import RefusedError

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A target that an order leaves out, and why."""

    name: str
    error: RefusedError


class NothingTakenError(RefusedError):
    """All targets of an order were refused."""

    def __init__(
        self, message: str, *, hint: str = "", refused: Sequence[Refused] = ()
    ) -> None:
        """Keep the refusal of each."""
        super().__init__(message, hint=hint)
        self.refused = tuple(refused)


class Parts:
    """The targets that an order leaves out, since it may be carried out in part.

    A target must be refused before anything is written for it.
    """

    def __init__(self, *, is_whole: bool) -> None:
        """Leave targets out, or refuse the whole order with the first of them."""
        self._is_whole = is_whole
        self.refused: list[Refused] = []

    def each(self, names: Iterable[str], decide: Callable[[str], T]) -> list[T]:
        """Return what `decide` makes of each name that it does not refuse.

        Raises RefusedError where nothing is left.
        """
        made: list[T] = []
        for name in names:
            try:
                made.append(decide(name))
            except RefusedError as error:
                if self._is_whole:
                    raise
                self.refused.append(Refused(name=name, error=error))
        if not made and self.refused:
            first = self.refused[0].error
            if len(self.refused) == 1:
                raise first
            raise NothingTakenError(
                f"none of {len(self.refused)} could be done",
                hint=first.hint,
                refused=self.refused,
            )
        return made
