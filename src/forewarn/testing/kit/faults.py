"""Faults of a world's endpoint, as tests set them: lines such as `500 x2, timeout`."""

from collections.abc import Sequence
from pathlib import Path

from forewarn.sim.faults.file import read_faults
from forewarn.testing.kit.core import Core
from forewarn.testing.kit.files import text_of


class Faults:
    """What goes wrong with answers; docs/faults.md has every kind."""

    def __init__(self, core: Core) -> None:
        """Spoil the answers of the world behind `core`."""
        self._core = core

    def set(self, line: str, *, vm: str = "") -> None:
        """Play this and nothing else, for one VM or for all.

        One fault lasts until it is cleared, unless it says otherwise; steps between
        commas hit one request each. Raises FaultError.
        """
        self._core.call(lambda: self._core.stage.faults.set(vm, line))

    def play(self, steps: Sequence[str], *, loops: bool = False) -> None:
        """Play steps one after the other for every VM, beside what is set."""
        self._core.call(lambda: self._core.stage.faults.play(steps, loops=loops))

    def load(self, file: Path | str) -> None:
        """Play what a faults file says, beside what is set; raises OSError.

        Raises FaultFileError with everything that is wrong in it.
        """
        playbooks = read_faults(text_of(Path(file)), name=str(file))
        self._core.call(lambda: self._core.stage.faults.play_file(playbooks))

    def clear(self, *, vm: str = "") -> None:
        """Spoil nothing more, for one VM or for all."""
        self._core.call(lambda: self._core.stage.faults.clear(vm))

    def counts(self, *, vm: str = "") -> dict[str, int]:
        """Return how often each kind was played, for one VM or for all."""
        return self._core.call(lambda: self._core.stage.faults.counts(vm))
