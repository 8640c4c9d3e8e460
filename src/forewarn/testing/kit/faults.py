"""Faults of a world's endpoint, set by tests with lines such as `500 x2, timeout`."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from forewarn.sim.faults.file import read_faults
from forewarn.testing.kit.calls import checked
from forewarn.testing.kit.core import AnyCore
from forewarn.testing.kit.files import refuse_name, text_of

T = TypeVar("T")


class Faults:
    """Faults in the answers to VMs; the page "Faults" lists every kind."""

    def __init__(self, core: AnyCore) -> None:
        """Control the faults of the world of `core`."""
        self._core = core

    @checked
    def set(self, line: str | int, *, vm: str = "") -> None:
        """Replace the faults of one VM, or of all.

        A single fault lasts until it is cleared, unless the line limits it. With steps
        between commas, each step affects one request. Raises FaultError.
        """
        line_text = line_of(line)
        self._of(vm, lambda: self._core.faults.set(vm, line_text))

    @checked
    def play(self, steps: Sequence[str | int], *, loops: bool = False) -> None:
        """Play steps in sequence for every VM, in addition to the faults from `set`."""
        steps_text = [line_of(step) for step in steps]
        self._core.call(lambda: self._core.faults.play(steps_text, loops=loops))

    @checked
    def load(self, file: str | Path) -> None:
        """Play a faults file, in addition to the faults from `set`; raises OSError.

        Raises FaultFileError with all problems of the file.
        """
        playbooks = read_faults(text_of(Path(file)), name=str(file))
        self._core.call(lambda: self._core.faults.play_file(playbooks))

    @checked
    def clear(self, vm: str = "") -> None:
        """Remove the faults of one VM, or of all."""
        self._of(vm, lambda: self._core.faults.clear(vm))

    @checked
    def counts(self, vm: str = "") -> dict[str, int]:
        """Return how often each kind of fault was played, for one VM or for all."""
        return self._of(vm, lambda: self._core.faults.counts(vm))

    def _of(self, vm: str, act: Callable[[], T]) -> T:
        """Run a function on the loop; raises NotFoundError for an unknown VM."""

        def done() -> T:
            if vm:
                self._core.check_vm(vm)
            return act()

        return self._core.call(done)


def line_of(line: str | int) -> str:
    """Return a line of faults, which may be only a status; refuse a file's name."""
    refuse_name(str(line), "a line of faults")
    return str(line)
