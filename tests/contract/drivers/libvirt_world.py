"""The driver for libvirt in the contract suite, with hosts whose libvirt is a fake.

Its calls wait for a file, so that the test controls their end; then the driver's own
programs run. Its own workers observe, read marks and watch.
"""

import json
import os
import signal
from pathlib import Path
from typing import Any

from forewarn.clock import SystemClock
from forewarn.drivers.libvirt.commands import programs_of
from forewarn.drivers.libvirt.driver import LibvirtDriver
from forewarn.drivers.marks import mark_of
from forewarn.drivers.port import Call
from forewarn.drivers.programs import Programs
from tests.contract.drivers.worlds import STEPS, CommandWorld, World
from tests.support.fake_libvirts import FakeLibvirts, fake_python
from tests.support.processes import eventually

HOSTS = ("h1", "h2", "h3", "h4", "h5")

WATCHING = """#!/bin/sh
# A worker that watches also prints what a test lets happen.
for last; do :; done
if [ "$last" = serve ]; then
    tail -n +1 -f {directory}/sightings | sed -u 's/.*/{{"seen": &}}/' &
fi
exec {python} "$@"
"""


class LibvirtWorld(CommandWorld):
    """Two VMs on the host h1."""

    can_choose = False
    marks_hosts = False
    remembers_deleted = False
    tells_states = True

    def __init__(self, directory: Path) -> None:
        self.libvirts = FakeLibvirts(directory / "libvirt", *HOSTS)
        script = WATCHING.format(directory=directory, python=fake_python(directory))
        self.python = directory / "watching-python"
        self.python.write_text(script)
        self.python.chmod(0o755)
        disk = "<source file='/disks/web.qcow2'/>"
        for vm in ("web_0", "web_1"):
            devices = f"<devices><disk device='disk'>{disk}</disk></devices>"
            devices = devices.replace("/disks", str(self.libvirts.directory))
            self.libvirts.start(vm, "h1", devices=devices)
        volume = "<volume><name>web.qcow2</name>{}</volume>"
        base = "<backingStore><path>/base.qcow2</path></backingStore>"
        file = self.libvirts.directory / "web.qcow2.volume"
        file.write_text(volume.format(base))
        super().__init__(directory)

    def open_driver(self) -> LibvirtDriver:
        driver = LibvirtDriver(
            self._programs(),
            python=str(self.python),
            connections=self.libvirts.connections(),
            records=self._directory / "records",
            clock=SystemClock(),
        )
        driver.watch_hosts(HOSTS)
        return driver

    def _programs(self) -> Programs:
        own = programs_of(
            str(self.python),
            self.libvirts.connections(),
            can_reimage=True,
            steps=dict.fromkeys(STEPS.names, self._step_words()),
            step_rules=STEPS,
        )
        return self._waiting_programs(own)

    def hide(self, vm: str) -> None:
        for host in HOSTS:
            (self.libvirts.directory / host / f"hidden-{vm}").touch()

    def _domains(self, vm: str) -> list[Any]:
        hosts = [self.libvirts.host(host) for host in HOSTS]
        return [host.lookupByName(vm) for host in hosts if host._known(vm)]

    def _spoil_marks(self) -> None:
        for vm, text in self._spoiled.items():
            if not vm:
                # There is no mark of a host.
                continue
            self.wait_for_mark(vm)
            # libvirt keeps only elements, so a spoiled one has no text that we know.
            mark = "<call name='5'/>" if text else ""
            for domain in self._domains(vm):
                with domain._changing() as note:
                    note.update(live=mark, config=mark)

    def only_mark(self, call: Call) -> None:
        World.begin(self, call)
        record = self._directory / "records" / f"{call.operation_id}.{call.generation}"
        for number, vm in enumerate(call.vms):
            program = record / f"{number}.program"
            eventually(program.exists, bool, what="the program")
            element = f"<call name='{mark_of(call).text}' state='begun'/>"
            for domain in self._domains(vm.vm):
                domain.setMetadata(2, element, "forewarn", "urn:test", 3)
            for file in (record / f"{number}.start", program):
                os.kill(json.loads(file.read_text())["pid"], signal.SIGKILL)

    def wait_for_mark(self, vm: str) -> None:
        # It waits for its file, and has left no mark.
        if any(self._waiting_for(vm)):
            return
        eventually(
            lambda: [domain._read()["config"] for domain in self._domains(vm)],
            any,
            what="the mark",
        )

    def _waiting_for(self, vm: str) -> list[Call]:
        return [
            call
            for call in self._waiting
            if vm in {affected.vm for affected in call.vms}
        ]

    def end(self) -> None:
        """Let the programs end that still wait."""
        for call in self._waiting:
            self._go(call)
