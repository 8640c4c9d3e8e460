"""The program that prints an inventory: its output counts only if it ended well."""

import sys
import threading
from pathlib import Path

import pytest

from forewarn.clock import SystemClock
from forewarn.drivers import discovery
from forewarn.drivers.discovery import Discovery
from forewarn.drivers.port import DriverError

LONG_SECONDS = 60.0
"""A deadline that no test reaches."""


def python(text: str, *, seconds: float = LONG_SECONDS) -> Discovery:
    arguments = (sys.executable, "-I", "-S", "-c", text)
    return Discovery(arguments, seconds=seconds, clock=SystemClock())


def test_the_output_of_a_program_is_returned_as_a_whole() -> None:
    assert python("print('ü' * 1_000_000, end='')").run() == "ü" * 1_000_000


def test_a_byte_order_mark_is_no_part_of_the_inventory() -> None:
    run = python("import sys; sys.stdout.buffer.write(b'\\xef\\xbb\\xbf{}')")
    assert run.run() == "{}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "import sys; print('{}'); print('a\\nno route', file=sys.stderr); sys.exit(3)",
            "failed with status 3: no route",
        ),
        ("import os; os.kill(os.getpid(), 9)", "failed with status -9"),
        ("import sys; sys.stdout.buffer.write(b'a\\xff')", "is not UTF-8 at byte 2"),
    ],
)
def test_a_program_that_failed_has_no_output(text: str, message: str) -> None:
    with pytest.raises(DriverError) as caught:
        python(text).run()
    assert caught.value.message.endswith(message)


def test_a_missing_program_is_named() -> None:
    run = Discovery(("/no/such",), seconds=LONG_SECONDS, clock=SystemClock())
    with pytest.raises(DriverError, match="/no/such cannot be run: No such file"):
        run.run()


@pytest.mark.parametrize(
    "hang",
    [
        "pass",
        "os.close(1); os.close(2)",
        "sys.stdout.write('{}'); sys.stdout.flush()",
    ],
)
def test_a_program_that_hangs_is_killed_with_its_children(
    hang: str, tmp_path: Path
) -> None:
    file = tmp_path / "child"
    text = (
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen(['/bin/sleep', '600'])\n"
        f"open({str(file)!r}, 'w').write(str(child.pid))\n"
        f"{hang}\n"
        "time.sleep(600)"
    )
    with pytest.raises(DriverError, match=r"did not end in 1\.5 s"):
        python(text, seconds=1.5).run()
    # A killed child whose parent was killed too is reaped by the first process.
    until = SystemClock().monotonic() + 60
    while is_running(int(file.read_text())) and SystemClock().monotonic() < until:
        threading.Event().wait(0.01)
    assert not is_running(int(file.read_text()))


def is_running(pid: int) -> bool:
    """Return whether a process exists and has not been killed."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_endless_output_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "OUTPUT_BYTES_MAX", 1 << 20)
    with pytest.raises(DriverError, match="printed more than 1 MiB"):
        python("while True: print('x' * 1000)").run()


def test_endless_errors_hold_no_memory_and_the_last_line_is_told() -> None:
    text = "import sys\nfor n in range(99999): print('line', n, file=sys.stderr)\nsys.exit(1)"
    with pytest.raises(DriverError, match="failed with status 1: line 99998"):
        python(text).run()


def test_the_program_gets_none_of_the_variables_of_its_caller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FOREWARN_TOKEN", "secret")
    output = python("import os; print(sorted(os.environ), os.getcwd())").run()
    assert output.split("LC_CTYPE")[0].startswith("['HOME', 'LANG', 'PATH'")
    assert output.endswith("/\n")


def test_a_run_ends_when_the_service_stops() -> None:
    run = python("import time; print('{}', flush=True); time.sleep(600)")
    ending = threading.Timer(0.3, run.end)
    ending.start()
    with pytest.raises(DriverError, match="failed with status -9"):
        run.run()
    ending.join()
    with pytest.raises(DriverError, match="was not run: the service is stopping"):
        run.run()
