"""Faults of a world's endpoint, as tests set them: lines such as `500 x2, timeout`."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from forewarn.sim.faults.file import read_faults
from forewarn.testing.kit.any_core import AnyCore
from forewarn.testing.kit.calls import checked
from forewarn.testing.kit.files import refuse_name, text_of

T = TypeVar("T")


class Faults:
    """What goes wrong with answers; docs/reference/faults.md has every kind."""

    def __init__(self, core: AnyCore) -> None:
        """Spoil the answers of the world behind `core`."""
        self._core = core

    @checked
    def set(self, line: str | int, *, vm: str = "") -> None:
        """Play this and nothing else, for one VM or for all.

        One fault lasts until it is cleared, unless it says otherwise; steps between
        commas hit one request each. Raises FaultError.
        """
        words = line_of(line)
        self._of(vm, lambda: self._core.faults.set(vm, words))

    @checked
    def play(self, steps: Sequence[str | int], *, loops: bool = False) -> None:
        """Play steps one after the other for every VM, beside what is set."""
        words = [line_of(step) for step in steps]
        self._core.call(lambda: self._core.faults.play(words, loops=loops))

    @checked
    def load(self, file: str | Path) -> None:
        """Play what a faults file says, beside what is set; raises OSError.

        Raises FaultFileError with everything that is wrong in it.
        """
        playbooks = read_faults(text_of(Path(file)), name=str(file))
        self._core.call(lambda: self._core.faults.play_file(playbooks))

    @checked
    def clear(self, vm: str = "") -> None:
        """Spoil nothing more, for one VM or for all."""
        self._of(vm, lambda: self._core.faults.clear(vm))

    @checked
    def counts(self, vm: str = "") -> dict[str, int]:
        """Return how often each kind was played, for one VM or for all."""
        return self._of(vm, lambda: self._core.faults.counts(vm))

    def _of(self, vm: str, act: Callable[[], T]) -> T:
        """Do it on the loop; refuse a VM that there is not."""

        def done() -> T:
            if vm:
                self._core.check_vm(vm)
            return act()

        return self._core.call(done)


def line_of(line: str | int) -> str:
    """Return a line of faults, which may be a status alone; refuse a file's name."""
    refuse_name(str(line), "a line of faults")
    return str(line)
