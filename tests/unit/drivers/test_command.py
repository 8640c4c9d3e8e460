"""The command driver: exit statuses, and the records after a crash."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from forewarn.clock import SystemClock
from forewarn.drivers import shim, watcher
from forewarn.drivers.command import CommandDriver
from forewarn.drivers.port import (
    Call,
    CallVm,
    DriverError,
    Observation,
    Probe,
    ProbeState,
    Report,
    Verdict,
)
from forewarn.drivers.programs import Programs
from forewarn.instants import DAY, MILLISECOND, SECOND, Micros
from forewarn.protocol.operations import Action
from tests.support.processes import eventually

pytestmark = [pytest.mark.system, pytest.mark.slow]

NOW = 0
"""The driver does not ask what time it is in the model."""


@dataclass
class Bench:
    """A driver whose programs are lines of shell, run in one directory."""

    directory: Path
    opened: list[CommandDriver] = field(default_factory=list[CommandDriver])

    def open(
        self,
        script: str,
        *,
        abortable: bool = True,
        timeout: Micros | None = None,
        parallel: int = 4,
        observe: str = "",
        probe: str = "",
        grace: Micros = 10 * SECOND,
        retention: Micros = DAY,
    ) -> CommandDriver:
        """Open the driver; in a script `$1` is the VM, and `here` the directory."""
        while self.opened:
            self.opened.pop().close()
        driver = CommandDriver(
            Programs(
                actions=dict.fromkeys(
                    (Action.REBOOT, Action.FREEZE), self._words(script)
                ),
                abortable=frozenset({Action.REBOOT} if abortable else ()),
                timeouts={Action.REBOOT: timeout},
                observe=self._words(observe) if observe else (),
                probe=self._words(probe) if probe else (),
                parallel=parallel,
                grace=grace,
            ),
            records=self.directory / "records",
            clock=SystemClock(),
            retention=retention,
        )
        self.opened.append(driver)
        return driver

    def _words(self, script: str) -> tuple[str, ...]:
        line = f"here='{self.directory}'; {script}"
        return ("/bin/sh", "-c", line, "program", "{vm}")

    def lines(self, name: str = "log") -> list[str]:
        """Return what programs have written into a file of the directory."""
        file = self.directory / name
        return file.read_text().splitlines() if file.exists() else []

    def records(self, generation: int = 1) -> Path:
        return self.directory / "records" / f"op-1.{generation}"


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    # A program that waits for this file may continue.
    (tmp_path / "go").touch()
    eventually(lambda: watching(tmp_path / "records"), lambda pids: not pids)
    for driver in bench.opened:
        driver.close()


def watching(records: Path) -> list[int]:
    """Return the shims that are at work."""
    notes = [json.loads(file.read_text()) for file in records.glob("*/*.start")]
    return [note["pid"] for note in notes if shim.identity(note["pid"])]


def call_of(*vms: str, action: Action = Action.REBOOT, generation: int = 1) -> Call:
    return Call(
        operation_id="op-1",
        generation=generation,
        action=action,
        host="h1",
        vms=tuple(CallVm(vm=vm) for vm in vms or ("web_0",)),
        duration_seconds=-1,
    )


WAIT = 'until test -e "$here/go" || ! test -d "$here"; do sleep 0.01; done'


def report_of(driver: CommandDriver) -> Report:
    [report] = eventually(lambda: list(driver.reports(now=NOW)), bool, what="a report")
    return report


def probe_of(driver: CommandDriver, generation: int = 1) -> Probe:
    return driver.probe(call_of(generation=generation), now=NOW, memory=driver.memory)


def pid_of(bench: Bench, name: str) -> int:
    """Return the process of a record such as `0.program`, when it is there."""
    record = bench.records() / name
    eventually(record.exists, bool, what=name)
    return json.loads(record.read_text())["pid"]


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: shim.identity(pid), lambda alive: alive is None)


# The input of a program


def test_a_program_reads_the_call_and_inherits_nothing_else(bench: Bench) -> None:
    driver = bench.open('cat > "$here/input"; env > "$here/env"; pwd > "$here/pwd"')
    driver.begin(call_of("web_0"), now=NOW)
    assert report_of(driver).verdict is Verdict.DONE
    [line] = bench.lines("input")
    assert json.loads(line) == {
        "operation": "op-1",
        "generation": 1,
        "action": "reboot",
        "vm": "web_0",
        "host": "h1",
        "to_host": None,
        "seconds": -1,
        "term": 0,
        "store": "",
        "mark": "op-1.1.reboot",
        "closed": [],
        "waiting": [],
    }
    names = {line.partition("=")[0] for line in bench.lines("env")}
    assert names <= {"PATH", "HOME", "LANG", "PWD", "SHLVL", "_", "OLDPWD"}
    assert bench.lines("pwd") == ["/"]


def test_program_that_ignores_input_and_leaves_a_child_is_done(
    bench: Bench,
) -> None:
    driver = bench.open('sleep 30 & echo $! > "$here/left"; exec 0<&-')
    driver.begin(call_of(), now=NOW)
    assert report_of(driver).verdict is Verdict.DONE
    os.kill(int(bench.lines("left")[0]), signal.SIGKILL)


# The meaning of its exit status


@pytest.mark.parametrize(
    ("script", "reason", "down"),
    [
        ("echo no power; exit 1", "vm web_0: exit status 1: no power", ()),
        ("echo gone >&2; exit 3", "vm web_0: exit status 3: gone", ("web_0",)),
        ("exit 7", "vm web_0: exit status 7", ()),
        ("kill -9 $$", "vm web_0: the program was ended by signal 9", ()),
    ],
)
def test_failure_is_reported_with_the_last_output(
    bench: Bench, script: str, reason: str, down: tuple[str, ...]
) -> None:
    driver = bench.open(script)
    driver.begin(call_of(), now=NOW)
    report = report_of(driver)
    assert report.verdict is Verdict.FAILED
    assert report.reason == reason
    assert report.down == down


def test_end_of_a_long_output_is_kept(bench: Bench) -> None:
    driver = bench.open("head -c 1000000 /dev/zero | tr '\\0' x; echo; echo oh; exit 1")
    driver.begin(call_of(), now=NOW)
    report = report_of(driver)
    assert report.reason.endswith("xxx oh")
    assert len(report.reason) < 300
    end = json.loads((bench.records() / "0.end").read_text())
    assert end["status"] == 1
    assert len(end["output"]) == shim.OUTPUT_BYTES_MAX


def test_program_that_cannot_be_started_fails(bench: Bench) -> None:
    driver = CommandDriver(
        Programs(actions={Action.REBOOT: ("/no/such/program",)}, timeouts={}),
        records=bench.directory / "records",
        clock=SystemClock(),
    )
    bench.opened.append(driver)
    driver.begin(call_of(), now=NOW)
    assert report_of(driver).reason == (
        "vm web_0: the program could not be started: "
        "/no/such/program: No such file or directory"
    )


def test_shim_that_cannot_be_started_fails(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = bench.open("exit 0")
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    driver.begin(call_of(), now=NOW)
    assert "could not be started: /no/such/python: No such" in report_of(driver).reason


def test_a_program_that_takes_too_long_is_ended(bench: Bench) -> None:
    driver = bench.open("echo waiting; sleep 60", timeout=300 * MILLISECOND)
    driver.begin(call_of(), now=NOW)
    assert report_of(driver).reason == (
        "vm web_0: the program exceeded its timeout and was ended: waiting"
    )


def test_action_without_a_program_is_refused(bench: Bench) -> None:
    driver = bench.open("exit 0")
    assert driver.actions() == {Action.REBOOT, Action.FREEZE}
    with pytest.raises(DriverError, match="no program is configured for delete"):
        driver.begin(call_of(action=Action.DELETE), now=NOW)
    assert probe_of(driver).state is ProbeState.NOT_STARTED


def test_call_that_cannot_be_recorded_is_not_started(bench: Bench) -> None:
    driver = bench.open("exit 0")
    shutil.rmtree(bench.directory / "records")
    with pytest.raises(DriverError, match="the call cannot be recorded in"):
        driver.begin(call_of(), now=NOW)
    assert probe_of(driver).state is ProbeState.NOT_STARTED


# Several VMs


def test_a_call_is_done_when_all_its_vms_are(bench: Bench) -> None:
    driver = bench.open(
        'echo "+$1" >> "$here/log"; sleep 0.1; echo "-$1" >> "$here/log"', parallel=2
    )
    driver.begin(call_of(*"abcde"), now=NOW)
    assert report_of(driver).verdict is Verdict.DONE
    log = bench.lines()
    assert sorted(log) == sorted(f"{sign}{vm}" for vm in "abcde" for sign in "+-")
    at_once = 0
    for line in log:
        at_once += 1 if line[0] == "+" else -1
        assert 0 <= at_once <= 2


def test_report_names_failed_vms_and_vms_that_are_down(bench: Bench) -> None:
    driver = bench.open('case "$1" in a) exit 0;; b) exit 3;; *) exit 1;; esac')
    driver.begin(call_of(*"abcd"), now=NOW)
    report = report_of(driver)
    assert report.down == ("b",)
    assert report.reason == "vm b: exit status 3; vm c: exit status 1; and 1 more"


def test_repeated_call_skips_finished_vms(bench: Bench) -> None:
    driver = bench.open(
        'echo "$1" >> "$here/log"; test "$1" = a || test -e "$here/go" || exit 1'
    )
    driver.begin(call_of("a", "b"), now=NOW)
    assert report_of(driver).verdict is Verdict.FAILED
    (bench.directory / "go").touch()
    driver.begin(call_of("a", "b", generation=2), now=NOW)
    report = report_of(driver)
    assert (report.generation, report.verdict) == (2, Verdict.DONE)
    assert sorted(bench.lines()) == ["a", "b", "b"]
    # Another action on the same VMs is other work.
    driver.begin(call_of("a", action=Action.FREEZE, generation=3), now=NOW)
    report_of(driver)
    assert bench.lines()[-1] == "a"


# Stopping


def test_stopped_program_ends_with_all_its_children(bench: Bench) -> None:
    driver = bench.open('sleep 60 & echo $! >> "$here/log"; wait')
    driver.begin(call_of(), now=NOW)
    [child] = eventually(bench.lines, bool)
    assert driver.abort("op-1", 1, now=NOW)
    assert probe_of(driver).state is ProbeState.FAILED
    eventually(lambda: shim.identity(int(child)), lambda alive: alive is None)


def test_program_that_ignores_sigterm_is_killed_after_the_grace(bench: Bench) -> None:
    driver = bench.open(
        f"trap '' TERM; echo x >> \"$here/log\"; {WAIT}", grace=100 * MILLISECOND
    )
    driver.begin(call_of(), now=NOW)
    eventually(bench.lines, bool)
    assert driver.abort("op-1", 1, now=NOW)
    eventually(driver.under_way, lambda count: count == 0)
    assert list(driver.reports(now=NOW)) == []


def test_call_that_cannot_be_aborted_keeps_running(bench: Bench) -> None:
    driver = bench.open(f'echo x >> "$here/log"; {WAIT}', abortable=False)
    driver.begin(call_of(), now=NOW)
    eventually(bench.lines, bool)
    assert not driver.abort("op-1", 1, now=NOW)
    (bench.directory / "go").touch()
    assert report_of(driver).verdict is Verdict.DONE


def test_a_newer_call_waits_for_a_stopped_program(bench: Bench) -> None:
    """It does its work at the last moment, so there is nothing left to do."""
    driver = bench.open(f"trap ':' TERM; echo x >> \"$here/log\"; {WAIT}; exit 0")
    driver.begin(call_of(), now=NOW)
    eventually(bench.lines, bool)
    assert driver.abort("op-1", 1, now=NOW)
    driver.begin(call_of(generation=2), now=NOW)
    assert probe_of(driver, 2).state is ProbeState.RUNNING
    (bench.directory / "go").touch()
    report = report_of(driver)
    assert (report.generation, report.verdict) == (2, Verdict.DONE)
    assert bench.lines() == ["x"]


# Crashes


def lose(bench: Bench) -> None:
    """Kill who watches the program, and the program."""
    watching, program = pid_of(bench, "0.start"), pid_of(bench, "0.program")
    kill(watching)
    kill(program)


def test_outcome_of_a_lost_program_is_unknown_and_it_is_not_rerun(bench: Bench) -> None:
    script = f'echo x >> "$here/log"; {WAIT}'
    bench.open(script).begin(call_of(), now=NOW)
    eventually(bench.lines, bool)
    lose(bench)
    driver = bench.open(script)
    assert probe_of(driver).state is ProbeState.UNKNOWN
    driver.begin(call_of(), now=NOW)
    assert probe_of(driver).state is ProbeState.UNKNOWN
    assert not driver.abort("op-1", 1, now=NOW)
    assert bench.lines() == ["x"]
    assert list(driver.reports(now=NOW)) == []


def test_program_without_its_shim_is_still_reported_as_running(bench: Bench) -> None:
    driver = bench.open(WAIT)
    driver.begin(call_of(), now=NOW)
    pid_of(bench, "0.program")
    kill(pid_of(bench, "0.start"))
    assert probe_of(driver).state is ProbeState.RUNNING
    assert not driver.abort("op-1", 1, now=NOW)
    (bench.directory / "go").touch()
    eventually(
        lambda: probe_of(driver).state, lambda state: state is ProbeState.UNKNOWN
    )


@pytest.mark.parametrize(
    ("status", "state", "down"),
    [
        (0, ProbeState.DONE, ()),
        (1, ProbeState.FAILED, ()),
        (3, ProbeState.FAILED, ("web_0",)),
        (2, ProbeState.UNKNOWN, None),
        (4, ProbeState.RUNNING, None),
    ],
)
def test_probe_program_decides_the_outcome_of_a_lost_call(
    bench: Bench, status: int, state: ProbeState, down: tuple[str, ...] | None
) -> None:
    bench.open(WAIT).begin(call_of(), now=NOW)
    lose(bench)
    driver = bench.open(WAIT, probe=f'echo "$1"; exit {status}')
    probe = probe_of(driver)
    assert probe.state is state
    assert (probe.report.down if probe.report else None) == down


def test_accepted_call_is_run_by_the_next_process(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher.Watcher, "wake", lambda _self: None)
    monkeypatch.setattr(watcher.Watcher, "start", lambda _self: None)
    script = 'echo x >> "$here/log"'
    bench.open(script).begin(call_of(), now=NOW)
    monkeypatch.undo()
    driver = bench.open(script)
    assert probe_of(driver).state is ProbeState.RUNNING
    assert report_of(driver).verdict is Verdict.DONE
    assert bench.lines() == ["x"]


def test_program_is_started_once_by_repeated_shim_runs(bench: Bench) -> None:
    """As when a service dies between the start of a shim and its record."""
    driver = bench.open('echo x >> "$here/log"')
    driver.begin(call_of(), now=NOW)
    report_of(driver)
    for _ in range(2):
        assert shim.main([str(bench.records()), "0"]) == 0
    assert bench.lines() == ["x"]


def test_damaged_record_leaves_the_outcome_unknown(bench: Bench) -> None:
    bench.open("exit 0").begin(call_of(), now=NOW)
    report_of(bench.opened[0])
    (bench.records() / "call.json").write_text("{")
    (bench.records() / "told").unlink(missing_ok=True)
    assert probe_of(bench.open("exit 0")).state is ProbeState.UNKNOWN


def test_old_records_are_deleted(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "PURGE_SECONDS", 0.0)
    monkeypatch.setattr(watcher, "IDLE_SECONDS", 0.05)
    driver = bench.open("exit 0", retention=0)
    driver.begin(call_of(), now=NOW)
    report_of(driver)
    driver.begin(call_of(generation=2), now=NOW)
    eventually(
        lambda: [path.name for path in (bench.directory / "records").iterdir()],
        lambda found: found == ["memory.json"],
        what="the end of the records",
    )


def test_unusable_record_directory_prevents_the_start(bench: Bench) -> None:
    bench.directory.joinpath("records").write_text("")
    with pytest.raises(DriverError, match=r"records .* cannot be used: File exists"):
        bench.open("exit 0")


# Looking


@pytest.mark.parametrize(
    ("script", "seen"),
    [
        ("echo h2", Observation(running=True, host="h2")),
        ("exit 0", Observation(running=True)),
        ("echo h2; exit 3", Observation(running=False)),
        ("echo h2; exit 1", Observation()),
        ("exit 127", Observation()),
    ],
)
def test_observer_reports_where_a_vm_runs(
    bench: Bench, script: str, seen: Observation
) -> None:
    driver = bench.open("exit 0", observe=script)
    assert driver.observe(["web_0"]) == {"web_0": seen}


def test_observer_without_an_answer_yields_no_observation(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forewarn.drivers.programs.ASK_SECONDS", 0.3)
    driver = bench.open("exit 0", observe="sleep 60", parallel=1)
    assert driver.observe(["a", "b"]) == {"a": Observation(), "b": Observation()}


def test_identities_distinguish_processes() -> None:
    own_identity = shim.identity(os.getpid())
    assert own_identity == shim.identity(os.getpid())
    # It began later than this program, which took more than a tick to load.
    with subprocess.Popen(["/bin/sleep", "60"]) as other:
        assert own_identity != shim.identity(other.pid)
        other.kill()
    assert shim.identity(0) is None
