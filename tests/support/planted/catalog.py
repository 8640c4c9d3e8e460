"""The model of a planted defect, and the list of all."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tests.support.planted.endpoint import Endpoint
from tests.support.planted.messages import Connection
from tests.support.planted.story import QUICK, Pace, Story

Part = TypeVar("Part", bound=Story | Endpoint | Connection)


@dataclass(frozen=True, slots=True)
class Defect:
    """One thing that is wrong with an otherwise healthy server."""

    name: str
    clause: str
    """The one that it breaks."""
    wrong: str
    """The wrong behavior of the server, in one sentence."""
    is_decidable: bool
    """Whether a client outside can prove it."""
    why: str
    """The way in which a client sees it, or the reason why it cannot be sure."""
    story: type[Story] = Story
    endpoint: type[Endpoint] = Endpoint
    connection: type[Connection] = Connection
    pace: Pace = QUICK
    """The story in which it shows."""

    def __str__(self) -> str:
        return f"{self.name} ({self.clause}): {self.wrong}"


FOUND: dict[str, Defect] = {}
"""The defects by name, in the order of their definition."""


def defect(
    name: str,
    clause: str,
    wrong: str,
    *,
    seen: str = "",
    unseen: str = "",
    pace: Pace = QUICK,
) -> Callable[[type[Part]], type[Part]]:
    """Add the decorated class to the list: a healthy part with one method wrong.

    Either `seen` says how a client outside sees it, or `unseen` why it cannot.
    """
    assert bool(seen) != bool(unseen), f"{name}: say either how or why not"
    assert name not in FOUND, f"there are two defects {name}"

    def add(part: type[Part]) -> type[Part]:
        FOUND[name] = Defect(
            name=name,
            clause=clause,
            wrong=wrong,
            is_decidable=bool(seen),
            why=seen or unseen,
            story=part if issubclass(part, Story) else Story,
            endpoint=part if issubclass(part, Endpoint) else Endpoint,
            connection=part if issubclass(part, Connection) else Connection,
            pace=pace,
        )
        return part

    return add
