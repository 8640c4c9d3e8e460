"""The drivers of the contract suite: one simulated, one that runs programs.

A world creates a driver. `reopen` creates it again, as after a restart of the service,
and `pass_until_reported` lets its time pass. The command driver runs
examples/drivers/harmless.py.
"""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from forewarn.clock import SystemClock
from forewarn.drivers.command import CommandDriver
from forewarn.drivers.journal import Journal
from forewarn.drivers.limited import Limited
from forewarn.drivers.port import (
    Call,
    Driver,
    ProbeState,
    Report,
    Sighting,
)
from forewarn.drivers.programs import Programs
from forewarn.drivers.records import (
    DONE_STATUS,
    DOWN_STATUS,
    NOT_NEEDED_STATUS,
    RUNS_STATUS,
)
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import CALL_DURATIONS, Fault, FaultKind
from forewarn.drivers.watch import parse_sighting
from forewarn.instants import HOUR, SECOND, Micros
from forewarn.protocol.host_steps import StepRule, StepRules
from forewarn.protocol.operations import Action
from tests.support.processes import eventually

HARMLESS = Path(__file__).resolve().parents[3] / "examples" / "drivers" / "harmless.py"

SYSTEM, SLOW = pytest.mark.system, pytest.mark.slow

START: Micros = 1_800_000_000 * SECOND


STEPS = StepRules(
    rules=(
        ("flash", StepRule(arguments=(("version", "[0-9.]+"),))),
        ("reset", StepRule()),
    )
)
"""The host steps of each driver."""

TARGETS = ("h1", "h3", "h4")
"""The hosts that each driver can choose."""

ACTIONS = [action for action in Action if action is not Action.NONE]


class World:
    """A driver, its memory and its time."""

    driver: Driver
    lacks: frozenset[Action] = frozenset()
    """The actions that the driver does not support."""
    can_choose = True
    """Whether the driver can choose the hosts to which VMs move."""
    marks_hosts = True
    """Whether a host keeps the marks of its host steps."""
    remembers_deleted = True
    """Whether a VM that the driver deleted is known not to run."""
    tells_states = False
    """Whether the driver tells that VMs run, and what its own work did to them."""

    def __init__(self) -> None:
        self.now = START
        self.driver = self.open_driver()

    def open_driver(self) -> Driver:
        """Return the driver as a new process creates it."""
        raise NotImplementedError

    def end(self) -> None:
        """End what the world has besides its driver."""

    def reopen(self) -> None:
        """Kill the service and start it again."""
        self.driver.close()
        self.driver = self.open_driver()

    def begin(self, call: Call) -> None:
        self.driver.begin(call, now=self.now)

    def probe(self, call: Call) -> ProbeState:
        return self.probe_for(call, self.driver.memory)

    def probe_for(self, call: Call, memory: str) -> ProbeState:
        """Probe a call that was given to `memory`."""
        return self.driver.probe(call, now=self.now, memory=memory).state

    def lose_memory(self) -> None:
        """Have the driver's memory removed while the service is away, and reopen."""
        raise NotImplementedError

    def limit(self, *limited: Limited) -> None:
        """Let hosts and VMs be unable to do something."""
        raise NotImplementedError

    def keep_silent(self) -> None:
        """Let the driver get no answer about the abilities of hosts any more."""
        raise NotImplementedError

    def lose_mark(self, vm: str = "") -> None:
        """Let the mark of the next call at a VM be lost; empty: at the host."""
        raise NotImplementedError

    def spoil_mark(self, vm: str = "") -> None:
        """Let the mark of the next call at a VM be unreadable."""
        raise NotImplementedError

    def only_mark(self, call: Call) -> None:
        """Make a call of which nothing but the marks is done."""
        raise NotImplementedError

    def hide(self, vm: str) -> None:
        """Let the driver be unable to observe a VM of the next call, after its end."""
        raise NotImplementedError

    def abort(self, call: Call) -> bool:
        return self.driver.abort(call.operation_id, call.generation, now=self.now)

    def fail(self, vm: str, *, is_down: bool = False, host: str = "") -> None:
        """Let the next call fail for one VM, which is on `host` afterwards."""
        raise NotImplementedError

    def land(self, vm: str, host: str) -> None:
        """Let the next move of a VM end on `host`; empty: the driver does not tell."""
        raise NotImplementedError

    def lose(self, call: Call, vm: str) -> None:
        """Begin a call whose outcome for one VM is unknown; the others are done."""
        raise NotImplementedError

    def end_steps_with(self, status: int, said: str = "") -> None:
        """Let the next host steps end with an exit status and an output."""
        raise NotImplementedError

    def see(self, line: str) -> None:
        """Let something happen unasked, in the form of the `watch` program."""
        raise NotImplementedError

    def sightings(self, *, until: str) -> list[Sighting]:
        """Return sightings up to the first of the VM `until`, without their times."""
        all_sightings: list[Sighting] = []

        def has_come() -> bool:
            all_sightings.extend(self.driver.sightings(now=self.now))
            return any(sighting.vm == until for sighting in all_sightings)

        eventually(has_come, bool, what="sightings")
        return [replace(sighting, at=0) for sighting in all_sightings]

    def pass_until_reported(self) -> list[Report]:
        """Let the time of the next report come; return what is reported then."""
        raise NotImplementedError

    def pass_long(self) -> None:
        """Let so much time pass that nothing is under way any more."""
        raise NotImplementedError

    def reports_now(self) -> list[Report]:
        """Return what is reported without any time passing."""
        return list(self.driver.reports(now=self.now))

    def late_reports(self) -> list[Report]:
        self.pass_long()
        return list(self.driver.reports(now=self.now))


class SimulatedWorld(World):
    """A world with the simulated driver and virtual time."""

    def __init__(
        self,
        journal: Callable[[], Journal],
        forget: Callable[[], None],
        marks: Callable[[], Journal] | None = None,
    ) -> None:
        self._journal = journal
        self._marks = marks
        self.forget = forget
        super().__init__()

    def open_driver(self) -> Driver:
        return SimulatedDriver(
            journal=self._journal(),
            steps=STEPS,
            targets=TARGETS,
            marks=None if self._marks is None else self._marks(),
        )

    def lose_memory(self) -> None:
        self.driver.close()
        self.forget()
        self.driver = self.open_driver()

    def fail(self, vm: str, *, is_down: bool = False, host: str = "") -> None:
        self._inject(
            Fault(
                kind=FaultKind.FAIL,
                vm=vm,
                leaves_down=is_down,
                elsewhere=host,
                spares_others=True,
            )
        )

    def land(self, vm: str, host: str) -> None:
        kind = FaultKind.LAND if host else FaultKind.UNTOLD
        self._inject(Fault(kind=kind, vm=vm, elsewhere=host))

    def lose(self, call: Call, vm: str) -> None:
        self._inject(Fault(kind=FaultKind.UNKNOWN, vm=vm, spares_others=True))
        self.begin(call)
        self.pass_long()

    def lose_mark(self, vm: str = "") -> None:
        self._inject(Fault(kind=FaultKind.MARK_LOST, vm=vm))

    def spoil_mark(self, vm: str = "") -> None:
        self._inject(Fault(kind=FaultKind.MARK_UNREADABLE, vm=vm))

    def hide(self, vm: str) -> None:
        self._inject(Fault(kind=FaultKind.UNSEEN, vm=vm))

    def only_mark(self, call: Call) -> None:
        self._inject(Fault(kind=FaultKind.MARK_ONLY))
        self.begin(call)

    def end_steps_with(self, status: int, said: str = "") -> None:
        kind = FaultKind.NOT_NEEDED if status == NOT_NEEDED_STATUS else FaultKind.FAIL
        self._inject(Fault(kind=kind, reason=said))

    def limit(self, *limited: Limited) -> None:
        assert isinstance(self.driver, SimulatedDriver)
        self.driver.limit(*limited)

    def keep_silent(self) -> None:
        assert isinstance(self.driver, SimulatedDriver)
        self.driver.limit(Limited(action=Action.FREEZE, vm="v"), silent=("h1", "h2"))

    def see(self, line: str) -> None:
        assert isinstance(self.driver, SimulatedDriver)
        self.driver.see(parse_sighting(line.encode(), now=self.now))

    def _inject(self, fault: Fault) -> None:
        assert isinstance(self.driver, SimulatedDriver)
        self.driver.inject(fault)

    def pass_until_reported(self) -> list[Report]:
        instant = self.driver.next_report_at()
        assert instant is not None, "no report is expected"
        self.now = max(self.now, instant)
        return list(self.driver.reports(now=self.now))

    def pass_long(self) -> None:
        self.now += HOUR


def _mark_words(state: str) -> str:
    return f"""printf '{{"mark": "%s", "state": "{state}"}}' {{mark}}"""


class CommandWorld(World):
    """Real programs that wait for a file, so that the test controls their end."""

    def __init__(
        self, directory: Path, *, has_marks: bool = False, observes_many: bool = False
    ) -> None:
        self._directory = directory
        self._has_marks = has_marks
        self._observes_many = observes_many
        self._spoiled: dict[str, str] = {}
        self._waiting: list[Call] = []
        self._lost = 0
        (directory / "sightings").touch()
        # It has a line that is in no output.
        (directory / "hidden").write_text("nothing is hidden\n")
        super().__init__()

    def open_driver(self) -> CommandDriver:
        return CommandDriver(
            self._programs(), records=self._directory / "records", clock=SystemClock()
        )

    def _waiting_words(self, words: tuple[str, ...], wait: str) -> tuple[str, ...]:
        """Return a program that a file with the name of the VM replaces by a fault."""
        fault = f'{wait} test -e "$0" && . "$0"; exec "$@"'
        return "/bin/sh", "-c", fault, f"{self._directory}/fail-{{vm}}", *words

    def _watch(self) -> tuple[str, ...]:
        # Like a program that prints the present state when it starts.
        return "/usr/bin/tail", "-n", "+1", "-f", f"{self._directory}/sightings"

    def _programs(self) -> Programs:
        harmless = (sys.executable, "-S", str(HARMLESS), str(self._directory / "vms"))
        wait = ("--wait-for", f"{self._directory}/go-{{operation}}")
        hosts = ("--hosts", ",".join(TARGETS))
        work = (*harmless, "{action}", "{vm}", *wait, *hosts)
        arguments = self._waiting_words(work, "")
        return Programs(
            actions=dict.fromkeys(ACTIONS, arguments),
            abortable=frozenset(ACTIONS),
            timeouts={},
            steps=dict.fromkeys(STEPS.names, self._step_words()),
            step_rules=STEPS,
            observe=() if self._observes_many else self._observe(harmless),
            observe_many=self._observe_many(harmless) if self._observes_many else (),
            marks=(*harmless, "marks") if self._has_marks else (),
            watch=self._watch(),
            abilities=(*harmless, "abilities"),
        )

    def _observe(self, harmless: tuple[str, ...]) -> tuple[str, ...]:
        script = f'grep -q -F "\\"$0\\"" {self._directory}/hidden && exit 1; exec "$@"'
        return "/bin/sh", "-c", script, "{vm}", *harmless, "observe", "{vm}"

    def _observe_many(self, harmless: tuple[str, ...]) -> tuple[str, ...]:
        asked, hidden = self._directory / "asked", self._directory / "hidden"
        asked.touch()
        script = f'echo >> {asked}; "$@" | grep -v -F -f {hidden}'
        return "/bin/sh", "-c", script, "sh", *harmless, "observe-many"

    def limit(self, *limited: Limited) -> None:
        (self._directory / "vms").mkdir(exist_ok=True)
        lines = (
            {
                **({"vm": limit.vm} if limit.vm else {"host": limit.host}),
                "actions": [limit.action.value],
                "able": limit.able.value,
                "reason": limit.reason,
            }
            for limit in limited
        )
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        (self._directory / "vms" / "limited").write_text(text)

    def keep_silent(self) -> None:
        # The program ends with an error before it prints a line.
        self.limit()
        (self._directory / "vms" / "limited").write_text("not JSON\n")

    def programs_asked(self) -> int:
        """Return how often `observe_many` was started."""
        return (self._directory / "asked").read_text().count("\n")

    def hide(self, vm: str) -> None:
        with (self._directory / "hidden").open("a") as file:
            file.write(f'"{vm}"\n')

    def _is_let_go(self, what: str) -> str:
        """Return a shell condition: the call may end, or the test has ended."""
        return f"test -e {self._directory}/go-{{{what}}} || ! test -d {self._directory}"

    def _waiting_programs(self, own: Programs) -> Programs:
        """Return a driver's own programs, with each call waiting for `let_go`."""
        wait = f"until {self._is_let_go('operation')}; do sleep 0.02; done;"
        return replace(
            own,
            actions={
                action: self._waiting_words(words, wait)
                for action, words in own.actions.items()
            },
            abortable=frozenset(own.actions),
            # An operator must decide about lost programs, as in the other worlds.
            probe=(),
        )

    def _step_words(self) -> tuple[str, ...]:
        wait = f"until {self._is_let_go('visit')}; do sleep 0.02; done"
        mark = f"{self._directory}/vms/mark.host.{{host}}"
        begun = f"mkdir -p {self._directory}/vms; {_mark_words('begun')} > {mark}"
        log = f"echo {{step}} {{host}} {{version}} >> {self._directory}/steps"
        fault = f"test -e {self._directory}/step-end && . {self._directory}/step-end"
        done = f"{_mark_words('done')} > {mark}"
        return "/bin/sh", "-c", f"{begun}; {wait}; {log}; {fault}; {done}"

    def lose_mark(self, vm: str = "") -> None:
        self._spoiled[vm] = ""

    def spoil_mark(self, vm: str = "") -> None:
        self._spoiled[vm] = '{"mark": 5}'

    def only_mark(self, call: Call) -> None:
        """Let the program and its shim be killed when it has written its mark."""
        World.begin(self, call)
        record = self._directory / "records" / f"{call.operation_id}.{call.generation}"
        for number, vm in enumerate(call.vms):
            mark = self._directory / "vms" / f"mark.vm.{vm.vm}"
            eventually(mark.exists, bool, what="the mark")
            for file in (record / f"{number}.start", record / f"{number}.program"):
                os.kill(json.loads(file.read_text())["pid"], signal.SIGKILL)

    def wait_for_mark(self, vm: str) -> None:
        file = self._directory / "vms" / f"mark.vm.{vm}"
        eventually(file.exists, bool, what="the mark")

    def _spoil_marks(self) -> None:
        for vm, text in self._spoiled.items():
            name = f"vm.{vm}" if vm else "host.h1"
            file = self._directory / "vms" / f"mark.{name}"
            eventually(file.exists, bool, what="the mark")
            if text:
                file.write_text(text)
            else:
                file.unlink()

    def end_steps_with(self, status: int, said: str = "") -> None:
        (self._directory / "step-end").write_text(f"echo '{said}'; exit {status}\n")

    def lose_memory(self) -> None:
        self._spoil_marks()
        self.driver.close()
        for path in (self._directory / "records").iterdir():
            if path.is_dir():
                shutil.rmtree(path)
        self.driver = self.open_driver()

    def fail(self, vm: str, *, is_down: bool = False, host: str = "") -> None:
        message = f'echo "vm-host: {host}"; ' if host else ""
        status = DOWN_STATUS if is_down else RUNS_STATUS
        (self._directory / f"fail-{vm}").write_text(f"{message}exit {status}\n")

    def land(self, vm: str, host: str) -> None:
        message = f'echo "vm-host: {host}"; ' if host else ""
        (self._directory / f"fail-{vm}").write_text(f"{message}exit {DONE_STATUS}\n")

    def see(self, line: str) -> None:
        with (self._directory / "sightings").open("a") as file:
            file.write(f"{line}\n")

    def lose(self, call: Call, vm: str) -> None:
        super().begin(call)
        self._lost += 1
        number = [affected.vm for affected in call.vms].index(vm)
        records = self._directory / "records" / f"{call.operation_id}.{call.generation}"
        files = records / f"{number}.start", records / f"{number}.program"
        # A shim that is killed before it has recorded its program loses the program.
        eventually(files[1].exists, bool, what="the program")
        for file in files:
            os.kill(json.loads(file.read_text())["pid"], signal.SIGKILL)
        self._go(call)
        others = [other for other in range(len(call.vms)) if other != number]
        ends = [records / f"{other}.end" for other in others]
        eventually(lambda: all(file.exists() for file in ends), bool, what="the ends")

    def begin(self, call: Call) -> None:
        super().begin(call)
        self._waiting.append(call)

    def pass_until_reported(self) -> list[Report]:
        self._waiting.sort(key=lambda call: -CALL_DURATIONS.get(call.action, 0))
        self._go(self._waiting.pop())
        return eventually(
            lambda: list(self.driver.reports(now=self.now)), bool, what="a report"
        )

    def pass_long(self) -> None:
        for call in self._waiting:
            self._go(call)
        assert isinstance(self.driver, CommandDriver)
        eventually(self.driver.under_way, lambda count: count == self._lost)

    def _go(self, call: Call) -> None:
        (self._directory / f"go-{call.operation_id}").touch()
