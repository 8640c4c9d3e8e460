"""Stories that run twice: once with a kill of the service while its program works."""

from collections.abc import Callable
from typing import Protocol, TypeAlias

import pytest

from tests.support.processes import eventually
from tests.support.profiles import some


class Interruptible(Protocol):
    """A world with a service whose calls are programs that outlive it."""

    def has_program(self) -> bool:
        """Return whether the program of a call has started."""
        ...

    def restart_service(self) -> None:
        """Kill the service, and start it again."""
        ...


Interrupt: TypeAlias = Callable[[Interruptible], None]


def nothing(_world: Interruptible) -> None:
    """Let the service run on."""


def kill(world: Interruptible) -> None:
    """Kill the service as soon as the program of the call runs, and start it again."""
    eventually(world.has_program, bool, what="the program")
    world.restart_service()


kills = pytest.mark.parametrize("interrupt", [nothing, kill])

slow_kills = pytest.mark.parametrize("interrupt", some([nothing, kill], usual=[kill]))
"""Real guests only: the same program without a kill is tried with quicker ones."""
