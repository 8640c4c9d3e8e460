"""Requests with several targets, some of which can be refused."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from forewarn.protocol.errors import RefusedError

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A refused target, with its error."""

    name: str
    error: RefusedError


class NothingTakenError(RefusedError):
    """All targets of a request were refused."""

    def __init__(
        self, message: str, *, hint: str = "", refused: Sequence[Refused] = ()
    ) -> None:
        """Keep the error of each target."""
        super().__init__(message, hint=hint)
        self.refused = tuple(refused)


class Parts:
    """The refused targets of a request that can be carried out in part.

    A target must be refused before anything is stored for it.
    """

    def __init__(self, *, is_whole: bool) -> None:
        """Collect refused targets, or refuse the whole request with the first one."""
        self._is_whole = is_whole
        self.refused: list[Refused] = []

    def each(self, names: Iterable[str], decide: Callable[[str], T]) -> list[T]:
        """Return the results of `decide` for the names that it does not refuse.

        Raises RefusedError if no name is left.
        """
        results: list[T] = []
        for name in names:
            try:
                results.append(decide(name))
            except RefusedError as error:
                if self._is_whole:
                    raise
                self.refused.append(Refused(name=name, error=error))
        if not results and self.refused:
            first = self.refused[0].error
            if len(self.refused) == 1:
                raise first
            raise NothingTakenError(
                f"all {len(self.refused)} targets were refused",
                hint=first.hint,
                refused=self.refused,
            )
        return results
