"""A small search: every state that can be reached from the first one."""

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TypeVar

S = TypeVar("S", bound=Hashable)


@dataclass(frozen=True)
class Result:
    """The number of states, and the shortest way to a broken one."""

    states: int
    complete: bool
    broken: str = ""
    path: tuple[str, ...] = ()


def explore(
    first: S,
    moves: Callable[[S], Iterable[tuple[str, S]]],
    broken: Callable[[S], str],
    *,
    limit: int,
) -> Result:
    """Search breadth first until an invariant breaks, or `limit` states were looked at."""
    came: dict[S, tuple[S, str] | None] = {first: None}
    queue = deque([first])
    looked = 0
    while queue and looked < limit:
        state = queue.popleft()
        looked += 1
        if said := broken(state):
            return Result(looked, complete=False, broken=said, path=_path(came, state))
        for name, after in moves(state):
            if after not in came:
                came[after] = (state, name)
                queue.append(after)
    return Result(looked, complete=not queue)


def _path(came: dict[S, tuple[S, str] | None], state: S) -> tuple[str, ...]:
    names: list[str] = []
    while step := came[state]:
        state, name = step
        names.append(name)
    return tuple(reversed(names))
