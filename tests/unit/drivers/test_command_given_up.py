"""An aborted call: none of its further programs start."""

from forewarn.drivers.port import ProbeState, Verdict
from tests.support.processes import eventually
from tests.unit.drivers.test_command import (
    NOW,
    WAIT,
    Bench,
    bench,
    call_of,
    probe_of,
    report_of,
)

__all__ = ["bench"]

SCRIPT = f'echo "$1" >> "$here/log"; {WAIT}'


def test_waiting_programs_of_an_aborted_call_never_start(bench: Bench) -> None:
    """The first may not be stopped, and continues; a reboot of the rest, with no event
    in any document, would come out of the blue."""
    driver = bench.open(SCRIPT, abortable=False, parallel=1)
    driver.begin(call_of("a", "b", "c"), now=NOW)
    assert eventually(bench.lines, bool) == ["a"]
    assert not driver.abort("op-1", 1, now=NOW)
    (bench.directory / "go").touch()
    report = report_of(driver)
    assert report.verdict is Verdict.FAILED
    assert "it was not started, because its call was aborted" in report.reason
    assert report.down == ()
    assert bench.lines() == ["a"]


def test_unclaimed_old_record_starts_no_programs(bench: Bench) -> None:
    """Its operation was settled while another kind of driver was in its place."""
    driver = bench.open(SCRIPT, abortable=False, parallel=1)
    driver.begin(call_of("a", "b"), now=NOW)
    assert eventually(bench.lines, bool) == ["a"]
    driver = bench.open(SCRIPT, abortable=False, parallel=1)
    (bench.directory / "go").touch()
    ended = bench.records() / "0.end"
    eventually(ended.exists, bool)
    for _ in range(3):
        driver._watcher._process(driver._book.open_cases()[0])
    assert bench.lines() == ["a"]
    # After a query it continues.
    assert probe_of(driver).state is ProbeState.RUNNING
    assert report_of(driver).verdict is Verdict.DONE
    assert bench.lines() == ["a", "b"]


def test_stop_of_an_older_call_ends_its_program_after_a_newer_started(
    bench: Bench,
) -> None:
    driver = bench.open(f'echo x >> "$here/log"; {WAIT}')
    driver.begin(call_of(), now=NOW)
    eventually(bench.lines, bool)
    driver.begin(call_of(generation=2), now=NOW)
    assert driver.abort("op-1", 1, now=NOW)
    # Its program is the second one: the first one waits for what does not come.
    eventually(bench.lines, lambda lines: lines == ["x", "x"])
    (bench.directory / "go").touch()
    assert report_of(driver).generation == 2
