"""The driver for QEMU in the contract suite, with fake QEMUs.

Its calls wait for a file, so that the test controls their end; then the driver's own
programs run.
"""

from dataclasses import replace
from pathlib import Path

from forewarn.drivers.programs import Programs
from forewarn.drivers.qemu.commands import programs_of
from forewarn.protocol.operations import Action
from tests.contract.drivers.worlds import STEPS, CommandWorld
from tests.support.fake_qemus import FakeQemus, places_in


class QemuWorld(CommandWorld):
    """Two VMs on the host h1."""

    lacks = frozenset({Action.REIMAGE})
    can_choose = False

    def __init__(self, directory: Path) -> None:
        self.places = places_in(directory / "qemu")
        self.qemus = FakeQemus(directory / "qemu")
        for vm in ("web_0", "web_1"):
            self.qemus.start(vm, "h1")
        super().__init__(directory)

    def _programs(self) -> Programs:
        own = programs_of(
            self.places,
            steps=dict.fromkeys(STEPS.names, self._step_words()),
            step_rules=STEPS,
        )
        return replace(self._waiting_programs(own), watch=self._watch())

    def end(self) -> None:
        """End the fake QEMUs."""
        self.qemus.end()
