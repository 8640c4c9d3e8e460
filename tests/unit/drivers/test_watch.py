"""The watch program: its lines, its restarts, and its end."""

import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.clock import SystemClock
from forewarn.drivers import restarts, watch
from forewarn.drivers.port import Sighting, StopCause
from forewarn.drivers.watch import Watch, parse_sighting
from tests.support.processes import eventually

NOW = 7


def test_line_is_parsed_with_all_members() -> None:
    line = (
        b'{"vm": "web_0", "running": false, "host": "h1", "cause": "shut-down", '
        b'"text": " by\\tits\\u0007 user ", "other": 1}\n'
    )
    assert parse_sighting(line, now=NOW) == Sighting(
        vm="web_0",
        running=False,
        at=NOW,
        host="h1",
        cause=StopCause.SHUT_DOWN,
        text="by its user",
    )


def test_optional_members_have_defaults() -> None:
    line = b'{"vm": "web_0", "running": true, "host": null}'
    assert parse_sighting(line, now=NOW) == Sighting(vm="web_0", running=True, at=NOW)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"", "Expecting value"),
        (b"web_0 stopped", "Expecting value"),
        (b"[1]", "must be a JSON object"),
        (b'{"vm": "web_0"}', '"running" must be true or false'),
        (b'{"vm": "web_0", "running": 0}', '"running" must be true or false'),
        (b'{"running": true}', '"vm" must be the name'),
        (b'{"vm": "-rf", "running": true}', '"vm" must be the name'),
        (b'{"vm": "a", "running": true, "host": 1}', '"host" must be the name'),
        (b'{"vm": "a", "running": false, "cause": "magic"}', "'magic' is not a valid"),
        (b'{"vm": "a", "running": false, "text": 1}', '"text" must be a string'),
        (b'{"vm": "a\xff"', "can't decode"),
    ],
)
def test_invalid_line_is_refused(line: bytes, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_sighting(line, now=NOW)


def test_long_text_is_cut() -> None:
    line = b'{"vm": "a", "running": false, "text": "%s"}' % (b"x" * 300)
    assert len(parse_sighting(line, now=NOW).text) == watch.TEXT_CHARACTERS_MAX


# With real programs

SYSTEM = [pytest.mark.system, pytest.mark.slow]


@pytest.fixture
def started() -> Iterator[list[Watch]]:
    watches: list[Watch] = []
    yield watches
    for driver in watches:
        driver.stop()


def run(started: list[Watch], script: str) -> Watch:
    arguments = (sys.executable, "-u", "-S", "-c", script)
    started.append(Watch(arguments, clock=SystemClock(), wake=lambda: None))
    started[-1].start()
    return started[-1]


def take(of: Watch, count: int) -> list[str]:
    vms: list[str] = []
    eventually(
        lambda: vms.extend(sighting.vm for sighting in of.take()) or len(vms),
        lambda seen: seen >= count,
        what="sightings",
    )
    return vms


@pytest.mark.system
@pytest.mark.slow
def test_newest_line_of_a_vm_counts_and_invalid_lines_are_logged_once(
    started: list[Watch], caplog: pytest.LogCaptureFixture
) -> None:
    script = (
        "print('nonsense'); print('more nonsense')\n"
        "for vm, runs in (('a', 'false'), ('b', 'false'), ('a', 'true')):\n"
        '    print(\'{"vm": "%s", "running": %s}\' % (vm, runs))\n'
        "import time; time.sleep(600)"
    )
    with caplog.at_level(logging.WARNING):
        of = run(started, script)
        running_by_vm: dict[str, bool] = {}
        eventually(
            lambda: (
                running_by_vm.update(
                    {sighting.vm: sighting.running for sighting in of.take()}
                )
                or running_by_vm.get("a")
            ),
            bool,
            what="the last line",
        )
    assert running_by_vm == {"a": True, "b": False}
    assert caplog.text.count("invalid line") == 1


@pytest.mark.system
@pytest.mark.slow
def test_program_that_ends_is_started_again(
    started: list[Watch],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(restarts, "AGAIN_SECONDS", 0.01)
    line = 'print(\'{"vm": "a", "running": false}\'); raise SystemExit(3)'
    with caplog.at_level(logging.WARNING):
        of = run(started, line)
        assert take(of, 3) == ["a", "a", "a"]
    assert "watch: the program ended with status 3; it is started again" in caplog.text
    assert "in 0.02 s" in caplog.text


@pytest.mark.system
@pytest.mark.slow
def test_program_and_its_children_end_with_the_driver(
    started: list[Watch], tmp_path: Path
) -> None:
    pid = tmp_path / "pid"
    of = run(
        started,
        f"import os, time; open({str(pid)!r}, 'w').write(f'{{os.getpid()}} ')\n"
        "time.sleep(600)",
    )
    text = eventually(
        lambda: pid.exists() and pid.read_text(), lambda said: " " in str(said)
    )
    of.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(int(str(text)), 0)
    of.stop()


@pytest.mark.system
@pytest.mark.slow
def test_program_that_is_missing_is_logged(
    started: list[Watch], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        started.append(Watch(("/no/such",), clock=SystemClock(), wake=lambda: None))
        started[-1].start()
        eventually(lambda: "/no/such: No such file" in caplog.text, bool)
