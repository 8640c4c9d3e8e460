"""Hanging `observe` and `probe` programs do not delay reports of other calls."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from forewarn.drivers import shim
from forewarn.drivers.port import Verdict
from forewarn.drivers.records import Plan, Run, note_of
from tests.support.processes import eventually
from tests.unit.drivers.test_command import NOW, Bench, call_of, report_of

pytestmark = [pytest.mark.system, pytest.mark.slow]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    for driver in bench.opened:
        driver.close()


def leave_lost(directory: Path, operation: str) -> Path:
    """Create the records of a call whose program has no recorded end."""
    records = directory / "records" / f"{operation}.1"
    records.mkdir()
    plan = Plan(
        call=replace(call_of("lost"), operation_id=operation),
        runs=(Run(vm="lost", to_host="", words=("/bin/true",)),),
        timeout=None,
        grace=1,
    )
    shim.write(records / shim.CALL, note_of(plan))
    shim.write(records / "0.start", {"pid": 0, "identity": ""})
    return records


def test_hung_probe_and_observe_do_not_delay_reports_of_other_calls(
    bench: Bench,
) -> None:
    hang = 'echo $$ >> "$here/hung"; exec sleep 600'
    driver = bench.open("exit 0", observe=hang, probe=hang)
    lost = leave_lost(bench.directory, "op-lost")
    driver = bench.open("exit 0", observe=hang, probe=hang)
    assert lost.exists()
    # The watcher asks after the lost program, and waits for its probe.
    eventually(lambda: bench.lines("hung"), bool, what="a hanging probe")
    driver.begin(call_of("a"), now=NOW)
    assert report_of(driver).verdict is Verdict.DONE
    driver.close()
    pids = [int(line) for line in bench.lines("hung")]
    eventually(
        lambda: [pid for pid in pids if shim.identity(pid)],
        lambda alive: not alive,
        what="the end of the programs that look",
    )
