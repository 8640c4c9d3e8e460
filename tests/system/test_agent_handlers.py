"""Handlers as real processes: their input, their end, and how they are found again."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from forewarn.agent.core.model import Finished, StepState, Stop, Tighten
from forewarn.agent.handlers import records
from forewarn.agent.handlers.exec import ExecWorker
from forewarn.agent.handlers.port import Ground, Job, Result
from forewarn.agent.handlers.records import RUNS_KEPT
from forewarn.agent.handlers.run_context import RunContext
from forewarn.agent.settings_model import HandlerSettings
from forewarn.instants import MILLISECOND, SECOND, Micros
from tests.support.handler_bench import CLOCK, ENVIRONMENT, Bench
from tests.support.processes import PATIENCE_SECONDS, eventually

pytestmark = pytest.mark.system


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    for run_id in bench.runner.running():
        bench.runner.stop(Stop(run_id=run_id, kill_at=0))


def is_gone(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


def test_program_receives_the_event(bench: Bench) -> None:
    done = bench.result("cat; echo; env; echo the end")
    assert done == Finished(run_id="r1", state=StepState.DONE, detail="the end")
    event, *lines = bench.records.directory("r1").output().splitlines()
    assert json.loads(event) == {
        "EventId": "E1",
        "EventStatus": "Scheduled",
        "EventType": "Reboot",
        "ResourceType": "VirtualMachine",
        "Resources": ["web_1", "wéb_2"],
        "NotBefore": "Sat, 21 Nov 2026 11:00:00 GMT",
        "Description": "Host “h1” is to be\nmaintained",
        "EventSource": "Platform",
        "DurationInSeconds": 9,
    }
    variables = dict(line.split("=", 1) for line in lines if "=" in line)
    assert variables["OWN"] == "agent's"
    for name, text in {
        "ID": "E1",
        "TYPE": "Reboot",
        "STATUS": "Scheduled",
        "SOURCE": "Platform",
        "NOT_BEFORE": "2026-11-21T11:00:00Z",
        "DURATION": "9",
        "RESOURCES": "web_1,wéb_2",
        "DESCRIPTION": "Host “h1” is to be",  # the other line follows
        "PHASE": "prepare",
        "VM": "web_1",
    }.items():
        assert (
            variables[f"FOREWARN_EVENT_{name}"] == variables[f"FOREWARN_{name}"] == text
        )
    assert variables["FOREWARN_DEADLINE"].endswith("Z")
    assert 0 < int(variables["FOREWARN_TIMEOUT"]) <= PATIENCE_SECONDS


@pytest.mark.parametrize(
    ("script", "detail"),
    [
        ("echo why; exit 3", "exit status 3: why"),
        ("exit 1", "exit status 1"),
        ("kill -PIPE $$", "ended by signal 13"),
        ("kill -KILL $PPID", "the program was killed by another process"),
    ],
)
def test_failed_program_reports_the_reason(
    bench: Bench, script: str, detail: str
) -> None:
    done = bench.result(script)
    assert done == Finished(run_id="r1", state=StepState.FAILED, detail=detail)


def test_missing_program_is_a_failure(bench: Bench) -> None:
    bench.add("", prepare=("/no/such/program",))
    bench.run()
    done = bench.end()
    assert done.state is StepState.FAILED
    assert "could not start" in done.detail
    assert list(bench.workers["h"].check()) == ["there is no program /no/such/program"]


def test_handler_without_a_program_is_done(bench: Bench) -> None:
    bench.add("", prepare=())
    bench.run()
    assert bench.end().state is StepState.DONE


def its_time_is_up_once(
    bench: Bench, name: str, *, grace: float = PATIENCE_SECONDS
) -> None:
    """Run the handler, and end its time once it has written that file.

    A deadline that was set at the start might come before the shell has set its
    traps, where the machine is busy.
    """
    run = bench.run()
    bench.saw(name)
    now = CLOCK.now()
    kill_at = now + round(grace * SECOND)
    bench.runner.tighten(Tighten(run_id=run.run_id, stop_at=now, kill_at=kill_at))


def test_program_that_times_out_has_failed_despite_exit_0(bench: Bench) -> None:
    bench.add(
        "trap 'echo tidied; exit 0' TERM\n"
        f"echo $$ >{bench.directory}/self\n"
        "while :; do sleep 0.02; done"
    )
    its_time_is_up_once(bench, "self")
    done = bench.end()
    assert done.state is StepState.FAILED
    assert done.detail == ("timed out, and it ended on SIGTERM; last output: tidied")


def test_program_with_a_shortened_deadline_times_out(
    bench: Bench,
) -> None:
    """NotBefore has come nearer while it worked."""
    bench.add("sleep 100")
    run = bench.run()
    eventually(
        bench.records.directory(run.run_id).claimed, lambda claim: claim is not None
    )
    now = CLOCK.now()
    bench.runner.tighten(
        Tighten(run_id=run.run_id, stop_at=now + SECOND, kill_at=now + 2 * SECOND)
    )
    assert bench.runner.running() == (run.run_id,)
    finished = bench.end()
    assert SECOND <= CLOCK.now() - now < 20 * SECOND
    assert finished.state is StepState.FAILED
    assert finished.detail.startswith("timed out")
    # One that has ended is left alone.
    bench.runner.tighten(Tighten(run_id=run.run_id, stop_at=now, kill_at=now))


def test_program_that_does_not_end_is_killed_with_its_group(bench: Bench) -> None:
    bench.add(
        "trap '' TERM\n"
        f"(trap '' TERM; sleep 60) & echo $! >{bench.directory}/child\n"
        f"echo $$ >{bench.directory}/self\n"
        "wait"
    )
    its_time_is_up_once(bench, "self", grace=0.3)
    done = bench.end()
    assert done.state is StepState.FAILED
    assert "had to be killed" in done.detail
    for name in ("child", "self"):
        pid = int(bench.saw(name))
        eventually(lambda pid=pid: is_gone(pid), bool)


def test_children_of_a_stopped_program_are_killed(bench: Bench) -> None:
    bench.add(
        f"(trap '' TERM; sleep 60) & echo $! >{bench.directory}/child\n"
        f"echo $$ >{bench.directory}/self; wait"
    )
    run = bench.run()
    child = int(bench.saw("child"))
    bench.runner.stop(Stop(run_id=run.run_id, kill_at=CLOCK.now() + SECOND))
    done = bench.end()
    assert done.state is StepState.STOPPED
    eventually(lambda: is_gone(child), bool)


def test_children_of_a_finished_program_continue(bench: Bench) -> None:
    done = bench.result(f"sleep 60 & echo $! >{bench.directory}/child")
    assert done.state is StepState.DONE
    child = int(bench.saw("child"))
    assert not is_gone(child)
    os.kill(child, signal.SIGKILL)


def test_end_of_a_program_is_noticed_at_once(bench: Bench) -> None:
    took: list[float] = []
    for _ in range(5):
        begun = CLOCK.monotonic()
        assert bench.result(":").state is StepState.DONE
        took.append(CLOCK.monotonic() - begun)
    # A busy machine delays some programs; polling would delay all of them.
    assert min(took) < 0.25


def test_start_and_end_of_a_long_output_are_kept(bench: Bench) -> None:
    done = bench.result(
        "echo first; head -c 3000000 /dev/zero | tr '\\0' 'x'; sleep 0.7;"
        " head -c 300000 /dev/zero | tr '\\0' 'y'; echo; echo last"
    )
    assert done.detail == "last"
    output = bench.records.directory("r1").output()
    assert output.startswith("first\nxxx")
    assert output.endswith("y\nlast\n")
    assert "[…]" in output
    assert len(output) < 40_000
    assert on_disk(bench) < 100_000


def on_disk(bench: Bench) -> int:
    """Return how many bytes a run has left behind."""
    directory = Path(bench.records.directory("r1").path)
    return sum(file.stat().st_size for file in directory.iterdir())


def test_large_final_output_is_not_kept_on_disk(bench: Bench) -> None:
    assert bench.result("head -c 3000000 /dev/zero; echo end").state is StepState.DONE
    assert on_disk(bench) < 100_000


def test_only_the_latest_records_are_kept(bench: Bench) -> None:
    bench.add(":")
    for number in range(RUNS_KEPT + 5):
        bench.run(run_id=f"r{number}")
        bench.end()
    eventually(
        lambda: len(list(Path(bench.records.directory("x").path).parent.iterdir())),
        lambda count: count <= RUNS_KEPT,
    )


def test_handler_removed_from_the_settings_fails_or_is_lost(bench: Bench) -> None:
    bench.run()
    assert bench.end().state is StepState.FAILED
    bench.run(resumes=True)
    assert bench.end().state is StepState.LOST


def test_a_bug_in_a_handler_is_a_failure(bench: Bench) -> None:
    class Broken(ExecWorker):
        def prepare(self, job: Job, context: RunContext) -> Result:
            raise ZeroDivisionError("oh")

    ground = Ground(records=bench.records, environment=ENVIRONMENT, clock=CLOCK)
    bench.workers["h"] = Broken(HandlerSettings(name="h", kind="exec"), ground)
    bench.run()
    assert bench.end() == Finished(
        run_id="r1", state=StepState.FAILED, detail="ZeroDivisionError: oh"
    )


AGENT = """
import queue, sys
from pathlib import Path
from tests.support.handler_bench import Bench
bench = Bench(Path(sys.argv[1]))
bench.add(sys.argv[2])
bench.run(run_id=sys.argv[3])
print("begun", flush=True)
bench.end()
print("ended", flush=True)
queue.SimpleQueue().get()
"""


class TestAfterKill9:
    """The agent is killed while a handler runs, and another one takes over."""

    def kill_agent(
        self,
        bench: Bench,
        script: str,
        *,
        when: Callable[[], object],
        run_id: str = "r1",
    ) -> None:
        agent = subprocess.Popen(
            [sys.executable, "-c", AGENT, str(bench.directory), script, run_id],
            cwd=Path(__file__).resolve().parents[2],
            stdout=subprocess.PIPE,
        )
        try:
            assert agent.stdout is not None
            assert agent.stdout.readline() == b"begun\n"
            when()
        finally:
            agent.kill()
            agent.wait()
            assert agent.stdout is not None
            agent.stdout.close()

    def test_running_program_is_waited_for(self, bench: Bench) -> None:
        go = bench.directory / "go"
        script = (
            f"echo $$ >{bench.directory}/self; while [ ! -e {go} ]; do sleep 0.02; done;"
            " echo done; exit 4"
        )
        self.kill_agent(bench, script, when=lambda: bench.saw("self"))
        assert not is_gone(int(bench.saw("self")))
        bench.add("exit 99")
        bench.run(resumes=True)
        go.touch()
        assert bench.end() == Finished(
            run_id="r1", state=StepState.FAILED, detail="exit status 4: done"
        )

    def test_result_of_a_program_that_has_ended_is_used(self, bench: Bench) -> None:
        script = f"echo $$ >{bench.directory}/self; echo fine"
        self.kill_agent(bench, script, when=lambda: bench.saw("self"))
        status = Path(bench.records.directory("r1").path) / "status"
        eventually(status.exists, bool)
        bench.add("exit 99")
        bench.run(resumes=True)
        assert bench.end() == Finished(run_id="r1", state=StepState.DONE, detail="fine")

    def test_output_written_without_the_agent_is_truncated(self, bench: Bench) -> None:
        go = bench.directory / "go"
        script = (
            f"echo $$ >{bench.directory}/self; while [ ! -e {go} ]; do sleep 0.01; done;"
            " head -c 3000000 /dev/zero; echo; echo fine"
        )
        self.kill_agent(bench, script, when=lambda: bench.saw("self"))
        go.touch()
        status = Path(bench.records.directory("r1").path) / "status"
        eventually(status.exists, bool)
        assert on_disk(bench) > 3_000_000
        bench.add("exit 99")
        bench.run(resumes=True)
        assert bench.end() == Finished(run_id="r1", state=StepState.DONE, detail="fine")
        assert on_disk(bench) < 100_000

    def test_running_program_keeps_its_deadline(self, bench: Bench) -> None:
        script = f"echo $$ >{bench.directory}/self; exec sleep 60"
        self.kill_agent(bench, script, when=lambda: bench.saw("self"))
        bench.add("exit 99")
        bench.run(resumes=True, seconds=0.2, grace=1)
        assert bench.end().state is StepState.FAILED
        eventually(lambda: is_gone(int(bench.saw("self"))), bool)

    def test_program_that_was_also_killed_is_lost(self, bench: Bench) -> None:
        script = f"echo $PPID >{bench.directory}/wrapper; exec sleep 60"
        self.kill_agent(bench, script, when=lambda: bench.saw("wrapper"))
        os.killpg(int(bench.saw("wrapper")), signal.SIGKILL)
        eventually(lambda: is_gone(int(bench.saw("wrapper"))), bool)
        bench.add("exit 99")
        bench.run(resumes=True)
        assert bench.end().state is StepState.LOST

    def test_process_with_a_reused_id_is_not_mistaken_for_the_program(
        self, bench: Bench
    ) -> None:
        directory = bench.records.directory("r1")
        directory.make(b"{}")
        stat = Path("/proc/self/stat").read_text().strip()
        fields = stat.split(" ")
        fields[21] = "12345"  # it began at another time
        (Path(directory.path) / "claim").write_text(
            f"{os.getpid()}\n{' '.join(fields)}\n"
        )
        bench.add("exit 99")
        bench.run(resumes=True)
        assert bench.end().state is StepState.LOST

    def test_program_that_never_started_is_not_started_later(
        self, bench: Bench
    ) -> None:
        directory = bench.records.directory("r1")
        bench.add(f"echo ran >{bench.directory}/ran")
        bench.run(resumes=True)
        assert bench.end().state is StepState.LOST
        # The agent died between making the directory and starting the wrapper.
        directory.make(b"{}")
        bench.run(resumes=True)
        assert bench.end().state is StepState.LOST
        # The wrapper comes late.
        from forewarn.agent.handlers import process  # noqa: PLC0415

        late = process.start(directory, ("/bin/sh", "-c", "echo ran"), ENVIRONMENT)
        late._reap()
        assert not directory.output()

    def test_result_of_a_lost_journal_is_ignored(self, bench: Bench) -> None:
        bench.add(f"echo ran >>{bench.directory}/ran")
        for journal in ("j1", "j2"):
            bench.run(run_id=f"E1.{journal}-1.1.prepare.1.h")
            assert bench.end().state is StepState.DONE
        assert (bench.directory / "ran").read_text() == "ran\nran\n"

    def test_result_of_a_journal_from_a_backup_is_ignored(self, bench: Bench) -> None:
        for detail in ("first", "second"):
            bench.add(f"echo {detail}")
            bench.run(run_id="E1.j1-1.1.prepare.1.h")
            done = bench.end()
            assert (done.state, done.detail) == (StepState.DONE, detail)

    def test_running_program_for_the_same_step_is_awaited(self, bench: Bench) -> None:
        self.leave_behind(bench, "E1.j1-1.1.prepare.1.h", ending="echo fine")
        bench.add("exit 99")
        bench.run(run_id="E1.j2-1.1.prepare.1.h")
        (bench.directory / "go").touch()
        assert bench.end() == Finished(
            run_id="E1.j2-1.1.prepare.1.h", state=StepState.DONE, detail="fine"
        )

    @pytest.mark.parametrize(
        "run_id",
        ["E2.j2-1.1.prepare.1.h", "E1.j2-1.1.recover.1.h", "restore.j2.7.1.h"],
    )
    def test_running_program_for_another_step_ends_first(
        self, bench: Bench, run_id: str
    ) -> None:
        self.leave_behind(bench, "E1.j1-1.1.prepare.1.h", ending="echo old >>order")
        bench.add("echo new >>order", directory=str(bench.directory))
        bench.run(run_id=run_id)
        (bench.directory / "go").touch()
        assert bench.end().state is StepState.DONE
        assert (bench.directory / "order").read_text() == "old\nnew\n"

    def test_program_of_a_lost_journal_is_stopped_at_the_deadline(
        self, bench: Bench
    ) -> None:
        self.leave_behind(bench, "E1.j1-1.1.prepare.1.h")
        bench.add("exit 99")
        bench.run(run_id="E2.j2-1.1.prepare.1.h", seconds=0.2, grace=1)
        done = bench.end()
        assert done.state is StepState.FAILED
        assert (
            "while E1.j1-1.1.prepare.1.h of a lost journal was running" in done.detail
        )
        eventually(lambda: is_gone(int(bench.saw("self"))), bool)

    def leave_behind(self, bench: Bench, run_id: str, ending: str = ":") -> None:
        """Have a program of another agent run until the file `go` is there."""
        script = f"echo $$ >self; while [ ! -e go ]; do sleep 0.01; done; {ending}"
        self.kill_agent(
            bench,
            f"cd {bench.directory}; {script}",
            when=lambda: bench.saw("self"),
            run_id=run_id,
        )


def test_check_reports_problems(bench: Bench) -> None:
    def faults(**more: object) -> list[str]:
        bench.add(":", **more)
        return list(bench.workers["h"].check())

    assert not faults()
    assert not faults(check=("true",))
    assert faults(check=("/bin/sh", "-c", "echo no pool; exit 2")) == [
        "/bin/sh: exit status 2: no pool"
    ]
    assert faults(directory="/no/directory") == ["there is no directory /no/directory"]
    file = bench.directory / "plain"
    file.touch()
    [fault] = faults(recover=(str(file),))
    assert "chmod +x" in fault


def test_handler_starts_and_reports_without_delay(bench: Bench) -> None:
    """Not a measurement, which `make bench` does: a bound against polling."""
    bench.add(":")
    took: list[Micros] = []
    for number in range(10):
        begun = CLOCK.now()
        bench.run(run_id=f"quick{number}")
        bench.end()
        took.append(CLOCK.now() - begun)
    assert min(took) < 100 * MILLISECOND


def test_program_runs_without_space_for_its_record(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    spare = bench.directory / "spare"
    spare.mkdir()
    monkeypatch.setattr(records, "SPARE_DIRECTORIES", ("/nowhere", str(spare)))
    # A file instead of the directory simulates a full or read-only disk.
    Path(bench.records.directory("r1").path).parent.write_text("in the way")
    done = bench.result("cat >/dev/null; echo $FOREWARN_PHASE; exit 0")
    assert done == Finished(run_id="r1", state=StepState.DONE, detail="prepare")
    failed = bench.result("exit 3")
    assert (failed.state, failed.detail) == (StepState.FAILED, "exit status 3")
    assert list(spare.iterdir()) == []


def test_result_is_known_even_if_it_could_not_be_saved(bench: Bench) -> None:
    directory = bench.records.directory("r1").path
    done = bench.result(f"mkdir {directory}/status; echo all well")
    assert done == Finished(run_id="r1", state=StepState.DONE, detail="all well")
