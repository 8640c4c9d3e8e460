"""`forewarn record` and `simulate --replay` as processes, against all kinds of faults."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forewarn.clock import VirtualClock
from forewarn.instants import SECOND
from forewarn.protocol.events import EventType
from forewarn.sim.loop import LoopThread
from forewarn.sim.recording import (
    Answer,
    Failed,
    Failure,
    Header,
    Moment,
    Outcome,
    Recording,
    Writer,
    read_recording,
)
from forewarn.sim.replay import Replay, load
from forewarn.testing.recorder import Asker
from tests.support.processes import PATIENCE_SECONDS, eventually
from tests.support.stages import StagedFleet, staged_fleet

pytestmark = [pytest.mark.system, pytest.mark.slow]

GET = (
    b"GET /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\n"
    b"Host: x\r\nMetadata: true\r\nConnection: close\r\n\r\n"
)


@pytest.fixture(scope="module")
def loop() -> Iterator[LoopThread]:
    thread = LoopThread()
    yield thread
    thread.close()


@pytest.fixture
def fleet(loop: LoopThread) -> Iterator[StagedFleet]:
    with staged_fleet(loop, vms=1) as fleet:
        yield fleet


def url(fleet: StagedFleet) -> str:
    host, port = fleet.at["web_0"]
    return f"http://{host}:{port}"


@contextlib.contextmanager
def running(*words: str, cwd: Path) -> Generator[subprocess.Popen[str]]:
    """Run a command for as long as the block takes at most."""
    process = subprocess.Popen(
        [sys.executable, "-m", "forewarn", *words],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=PATIENCE_SECONDS)


def recorded(file: Path) -> list[Outcome]:
    if not file.exists() or file.read_bytes().count(b"\n") < 2:
        return []
    recording = read_recording(file.read_bytes(), name=file.name)
    return [moment.outcome for moment in recording.moments]


def told(outcome: Outcome) -> str:
    """Return what came, in a word."""
    if isinstance(outcome, Failed):
        return outcome.failure.value
    return str(outcome.status)


def came(file: Path, number: int) -> list[Outcome]:
    """Wait for so many different outcomes."""
    return eventually(lambda: recorded(file), lambda values: len(values) >= number)


def statuses(fleet: StagedFleet) -> set[str]:
    return {event.status.value for event in fleet.events()}


def test_recorder_survives_every_fault_and_never_approves(
    fleet: StagedFleet, tmp_path: Path
) -> None:
    file = tmp_path / "faults.jsonl"
    faults = {
        "500": "500",
        "503": "503",
        "410": "410",
        "reset": "reset",
        "refuse": "reset",
        "timeout": "timeout",
        "slow 1/s": "timeout",
        "html": "200",
        "broken": "200",
        "empty": "200",
        "null-events": "200",
        "incarnation-reset": "200",
    }
    with running(
        "record",
        *("-o", file.name, "--endpoint", url(fleet)),
        *("--poll", "20ms", "--timeout", "300ms"),
        cwd=tmp_path,
    ) as process:
        came(file, 1)
        event_id = fleet.event()
        wanted, seen = ["200", "200"], 2
        came(file, seen)
        for line, word in faults.items():
            fleet.set("web_0", line)
            seen += 1
            came(file, seen)
            fleet.call(lambda stage: stage.faults.clear())
            seen += 1
            came(file, seen)
            wanted += [word, "200"]
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, output
    assert [told(outcome) for outcome in recorded(file)] == wanted
    assert output.splitlines()[-1].endswith("interrupted")
    assert "Traceback" not in output
    # It read, and did nothing else.
    journal = fleet.call(lambda stage: list(stage.journal))
    assert {seen.method for seen in journal} <= {"GET", ""}
    assert event_id in {event.event_id for event in fleet.events()}
    assert statuses(fleet) == {"Scheduled"}


def test_closed_terminal_ends_the_recording_with_its_last_line(
    fleet: StagedFleet, tmp_path: Path
) -> None:
    """It sends SIGHUP, mostly twice, and takes no lines any more."""
    file = tmp_path / "closed.jsonl"
    ours, theirs = os.openpty()
    arguments = ("record", "-o", str(file), "--endpoint", url(fleet), "--poll", "20ms")
    process = subprocess.Popen(
        [sys.executable, "-m", "forewarn", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    came(file, 1)
    os.close(ours)
    # Everything before its end is recorded.
    fleet.event()
    came(file, 2)
    for _ in range(2):
        process.send_signal(signal.SIGHUP)
    assert process.wait(PATIENCE_SECONDS) == 0
    last = file.read_text(encoding="utf-8").splitlines()[-1]
    assert "interrupted" in last


def test_kill_9_loses_no_written_data(fleet: StagedFleet, tmp_path: Path) -> None:
    file = tmp_path / "killed.jsonl"
    with running(
        "record",
        *("-o", file.name, "--endpoint", url(fleet), "--poll", "10ms"),
        cwd=tmp_path,
    ) as process:
        came(file, 1)
        for number in range(5):
            fleet.event()
            came(file, number + 2)
        process.kill()
        process.wait(PATIENCE_SECONDS)
    recording = read_recording(file.read_bytes(), name="killed.jsonl")
    assert len(recording.moments) == 6
    assert not recording.ended
    assert not recording.is_torn
    # Cut anywhere in its last line, it is still read.
    torn = read_recording(file.read_bytes()[:-5], name="killed.jsonl")
    assert torn.is_torn
    assert len(torn.moments) >= 5


def raw(host: str, port: int) -> bytes:
    """Return the bytes of an answer but the lines of this connection and moment."""
    with socket.create_connection((host, port), timeout=PATIENCE_SECONDS) as wire:
        wire.sendall(GET)
        data = b"".join(iter(lambda: wire.recv(65_536), b""))
    assert b"\r\nConnection: close\r\n" in data
    data = data.replace(b"Connection: close\r\n", b"", 1)
    dated, count = re.subn(rb"\r\nDate: [^\r]+", b"", data, count=1)
    assert count == 1, data
    return dated


def test_recording_is_replayed_byte_by_byte(fleet: StagedFleet, tmp_path: Path) -> None:
    file = tmp_path / "story.jsonl"
    answers: list[bytes] = []
    host, port = fleet.at["web_0"]
    with running(
        "record",
        *("-o", file.name, "--endpoint", url(fleet), "--poll", "10ms"),
        cwd=tmp_path,
    ) as process:
        came(file, 1)
        answers.append(raw(host, port))
        for event_type in (EventType.FREEZE, EventType.REBOOT, EventType.PREEMPT):
            fleet.event(event_type=event_type)
            came(file, len(answers) + 1)
            answers.append(raw(host, port))
        fleet.call(lambda stage: stage.advance(900 * SECOND))
        came(file, len(answers) + 1)
        answers.append(raw(host, port))
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_SECONDS)
    assert process.returncode == 0
    # A second between what took milliseconds, so that each can be asked for.
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for number, line in enumerate(lines[1:]):
        line["at"] = number * 800_000
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))

    served: list[bytes] = []
    with running(
        "simulate",
        *("--replay", file.name, "--exact", "--stay"),
        *("--listen", "127.0.0.1:0", "--json"),
        cwd=tmp_path,
    ) as process:
        assert process.stdout is not None
        where: dict[str, Any] = json.loads(process.stdout.readline())
        assert where["what"] == "serving"
        host, _, port_text = where["url"].removeprefix("http://").partition(":")
        while len(served) < len(answers):
            answer = raw(host, int(port_text))
            if answer not in served[-1:]:
                served.append(answer)
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert served == answers
    assert "Traceback" not in output


def test_pseudonyms_replace_all_original_names(
    fleet: StagedFleet, tmp_path: Path
) -> None:
    file = tmp_path / "hidden.jsonl"
    with running(
        "record",
        *("-o", file.name, "--endpoint", url(fleet)),
        *("--poll", "10ms", "--pseudonyms"),
        cwd=tmp_path,
    ) as process:
        came(file, 1)
        ids = [fleet.event()]
        came(file, 2)
        fleet.set("web_0", "html")
        came(file, 3)
        fleet.call(lambda stage: stage.faults.clear())
        came(file, 4)
        ids.append(fleet.event(event_type=EventType.FREEZE))
        came(file, 5)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    text = file.read_text()
    vm_id = fleet.call(lambda stage: stage.engine.endpoint.directory.by_vm["web_0"])
    for original in (*ids, "web_0", vm_id.guest.vm_id, url(fleet), "<html"):
        assert original.lower() not in text.lower()
        assert original.lower() not in "".join(output.splitlines()[1:]).lower()
    assert read_recording(text.encode(), name="x").header.vm == "vm_1"
    outcomes = recorded(file)
    last = outcomes[-1]
    assert isinstance(last, Answer)
    assert [event["Resources"] for event in json.loads(last.body)["Events"]] == [
        ["vm_1"],
        ["vm_1"],
    ]


def test_recording_errors_are_reported(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    nobody = f"http://127.0.0.1:{port}"

    def run(*words: str) -> tuple[int, str]:
        with running("record", *words, cwd=tmp_path) as process:
            output, _ = process.communicate(timeout=PATIENCE_SECONDS)
        return process.returncode, output

    status, output = run(
        *("-o", "a", "--endpoint", nobody, "--poll", "10ms", "--for", "50ms")
    )
    assert status == 3
    assert "without an answer; the recording time has elapsed" in output
    assert [told(outcome) for outcome in recorded(tmp_path / "a")] == ["refused"]
    assert (tmp_path / "a").stat().st_mode & 0o077 == 0
    assert "already exists" in run("-o", "a", "--endpoint", nobody)[1]
    assert run("-o", "no/such", "--endpoint", nobody)[0] == 2
    assert run("-o", "b", "--endpoint", "https://x")[0] == 2
    assert run("-o", "b", "--poll", "1ms")[0] == 2
    assert run("-o", "b", "--for", "long")[0] == 2
    assert not (tmp_path / "b").exists()
    status, output = run("-o", "/dev/full", "--endpoint", nobody, "--for", "1s")
    assert status == 1
    assert "No space left" in output


def test_recorder_uses_the_environment_endpoint_and_standard_output(
    fleet: StagedFleet, tmp_path: Path
) -> None:
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "forewarn", "record"),
            *("-o", "-", "--for", "100ms", "--poll", "20ms"),
        ],
        cwd=tmp_path,
        env={**os.environ, "FOREWARN_ENDPOINT": url(fleet)},
        capture_output=True,
        check=True,
        timeout=PATIENCE_SECONDS,
    )
    recording = read_recording(ended.stdout, name="-")
    assert recording.ended == "the recording time has elapsed"
    assert recording.header.endpoint == url(fleet)
    assert recording.header.vm == "web_0"
    assert b"incarnation 1: no events" in ended.stderr


def test_recorder_needs_no_optional_dependency(
    fleet: StagedFleet, tmp_path: Path
) -> None:
    program = (
        "import sys\n"
        "for name in 'rich httptools uvloop fastapi httpx2 prometheus_client'.split():\n"
        "    sys.modules[name] = None\n"
        "from forewarn.cli import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    arguments = ("record", "-o", "x", "--endpoint", url(fleet), "--for", "10ms")
    subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=tmp_path,
        check=True,
        timeout=PATIENCE_SECONDS,
    )
    assert [told(outcome) for outcome in recorded(tmp_path / "x")] == ["200"]


def test_recorded_failures_are_replayed(loop: LoopThread) -> None:
    """A recording is replayed to a recorder, which finds the same."""
    document = Answer(
        status=200, headers=(("ETag", '"5"'),), body=b'{"DocumentIncarnation":5}'
    )
    html = Answer(status=200, headers=(("Content-Type", "text/html"),), body=b"<b>")
    busy = Answer(status=429, headers=(("Retry-After", "0"),), body=b"{}")
    gone = Answer(status=410, headers=(), body=b"", reason="Away")
    story: list[Outcome] = [document, busy, html, gone]
    for failure in Failure:
        story += [Failed(failure=failure), document]
    played = Recording(
        header=Header(api_version="2020-07-01", started=0, poll=SECOND),
        moments=tuple(
            Moment(at=number * SECOND, outcome=outcome)
            for number, outcome in enumerate(story)
        ),
        length=len(story) * SECOND,
        polls=len(story),
    )
    clock = VirtualClock(0)

    async def open_replay() -> tuple[Replay, str]:
        playing = Replay(played, clock=clock)
        host, port = await playing.open("web_0")
        playing.begin()
        return playing, f"http://{host}:{port}"

    playing, where = loop.wait(open_replay())
    asker = Asker(where, api_version="2020-07-01")
    outcomes: list[str] = []
    for wanted in story:
        outcome = asker.ask(etag=None, timeout_seconds=2)
        outcomes.append(told(outcome))
        if isinstance(outcome, Answer):
            headers = [pair for pair in outcome.headers if pair[0] != "Content-Length"]
            assert replace(outcome, headers=tuple(headers)) == wanted
        clock.advance_to(clock.now() + SECOND)
        loop.call(playing.settle)
    assert playing.is_over
    loop.wait(playing.stop())
    assert outcomes == [
        *("200", "429", "200", "410"),
        *("reset", "200", "reset", "200", "reset", "200"),
        *("timeout", "200", "strange", "200"),
    ]


def test_recording_can_be_served_from_a_program(
    loop: LoopThread, tmp_path: Path
) -> None:
    file = tmp_path / "x.jsonl"
    writer = Writer()
    answer = Answer(status=200, headers=(("Content-Length", "2"),), body=b"{}")
    lines = [
        writer.header(Header(api_version="2020-07-01", started=0, poll=SECOND)),
        writer.moment(Moment(at=0, outcome=answer)),
        writer.end(SECOND, "enough"),
    ]
    file.write_text("".join(lines))
    playing = loop.call(lambda: Replay(load(file), speed=100))
    host, port = loop.wait(playing.open("web_0", host="127.0.0.1", port=0))
    loop.call(playing.start)
    asker = Asker(f"http://{host}:{port}", api_version="2020-07-01")
    assert asker.ask(etag=None, timeout_seconds=5) == answer
    assert asker.name(timeout_seconds=5) == "web_0"
    eventually(lambda: playing.is_over, bool)
    loop.wait(playing.stop())
    assert len(playing.journal) == 2


def test_broken_file_is_reported_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"format":"forewarn recording"}\n{}\n')
    with running("simulate", "--replay", "x.jsonl", cwd=tmp_path) as process:
        output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 2
    assert output.startswith("forewarn: x.jsonl:1: format_version: it is missing")
    assert "the page 'Recording format'" in output
