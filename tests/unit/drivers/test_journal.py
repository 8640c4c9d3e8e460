"""The journal of the simulated driver: its size, and its state after a crash."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from forewarn.drivers import journal as journals
from forewarn.drivers import simulated
from forewarn.drivers.journal import FileJournal
from forewarn.drivers.port import Call, CallVm, DriverError
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.instants import HOUR, SECOND, Micros
from forewarn.protocol.operations import Action

NOW: Micros = 1_800_000_000 * SECOND

WRITER = """
import sys
from pathlib import Path
from forewarn.drivers import journal

journal.LINES_BETWEEN_REWRITES = 3
notes = journal.FileJournal(Path(sys.argv[1]))
for number in range(1_000_000):
    notes.write(f"call:{number % 5}", {"number": number})
    print(number, flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "forewarn.db.simulated"


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep few calls, and rewrite the file often."""
    monkeypatch.setattr(simulated, "ENDED_KEPT", 5)
    monkeypatch.setattr(journals, "LINES_BETWEEN_REWRITES", 20)


def lines_of(path: Path) -> int:
    return path.read_bytes().count(b"\n")


def run_to_its_end(driver: SimulatedDriver, number: int) -> None:
    """Reboot a VM with a new name."""
    call = Call(
        operation_id=f"op-{number}",
        generation=1,
        action=Action.REBOOT,
        host="h1",
        vms=(CallVm(vm=f"vm_{number}", to_host=""),),
        duration_seconds=-1,
    )
    now = NOW + number * HOUR
    driver.begin(call, now=now)
    assert len(driver.reports(now=now + HOUR)) == 1


@pytest.mark.usefixtures("few")
def test_file_does_not_grow_with_calls_while_it_is_open(path: Path) -> None:
    driver = SimulatedDriver(journal=FileJournal(path))
    sizes: list[int] = []
    for number in range(200):
        run_to_its_end(driver, number)
        sizes.append(lines_of(path))
    # Each call has a note, and so has its VM; the identity of the memory has one.
    notes = 2 * (simulated.ENDED_KEPT + 1) + 1
    # As many lines may be out of date, and 20 more.
    assert max(sizes) <= 2 * notes + 20
    driver.close()


@pytest.mark.usefixtures("few")
def test_vms_are_dropped_with_their_last_call(path: Path) -> None:
    driver = SimulatedDriver(journal=FileJournal(path))
    for number in range(20):
        run_to_its_end(driver, number)
    for _ in range(2):
        observations = driver.observe([f"vm_{number}" for number in range(20)])
        known = [
            vm for vm, observed in observations.items() if observed.running is not None
        ]
        assert known == [f"vm_{number}" for number in range(15, 20)]
        driver.close()
        driver = SimulatedDriver(journal=FileJournal(path))
    run_to_its_end(driver, 20)
    assert driver.observe(["vm_15"])["vm_15"].running is None
    driver.close()


@pytest.mark.usefixtures("few")
def test_vms_of_an_older_journal_without_a_call_are_dropped(path: Path) -> None:
    notes = FileJournal(path)
    for number in range(50):
        notes.write(f"vm:vm_{number}", {"running": True, "host": "h1"})
    notes.close()
    driver = SimulatedDriver(journal=FileJournal(path))
    run_to_its_end(driver, 1)
    assert driver.observe(["vm_0"])["vm_0"].running is None
    driver.close()
    FileJournal(path).close()
    assert lines_of(path) == 3  # The call, its VM, and the identity of the memory.


@pytest.mark.usefixtures("few")
def test_disk_without_space_for_a_rewrite_keeps_the_old_file(path: Path) -> None:
    notes = FileJournal(path)
    path.with_name(f"{path.name}.new").mkdir()
    for number in range(100):
        notes.write("call:1", {"number": number})
    assert lines_of(path) == 100
    path.with_name(f"{path.name}.new").rmdir()
    for number in range(100, 130):
        notes.write("call:1", {"number": number})
    assert lines_of(path) <= 30
    notes.close()
    again = FileJournal(path)
    assert again.notes() == {"call:1": {"number": 129}}
    again.close()


def test_file_is_readable_only_by_its_owner(path: Path) -> None:
    before = os.umask(0o022)
    try:
        notes = FileJournal(path)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    notes.close()


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.parametrize("acknowledged", [1, 7, 8, 40, 41, 42, 43, 200])
def test_kill_loses_no_written_note(path: Path, acknowledged: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        for _ in range(acknowledged):
            assert writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read().splitlines()
    # The last line may be torn: a number counts if its end was written too.
    last = int(rest[-2]) if len(rest) > 1 else acknowledged - 1
    notes = FileJournal(path)
    numbers = sorted(note["number"] for note in notes.notes().values())
    assert numbers[-1] >= last
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert len(numbers) == min(5, numbers[-1] + 1)
    notes.close()


def test_full_disk_is_reported_by_write_and_by_close(path: Path) -> None:
    notes = FileJournal(path)
    notes._file.close()
    notes._file = Path("/dev/full").open("wb")  # noqa: SIM115 - closed below
    for act in (lambda: notes.write("call:1", {"number": 1}), notes.close):
        with pytest.raises(DriverError, match="cannot be written: No space left"):
            act()
