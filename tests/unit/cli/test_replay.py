"""The words of `simulate --replay`: what goes together, and what does not."""

import json
import xml.etree.ElementTree as ET
from datetime import datetime
from pathlib import Path

import pytest

from forewarn.cli import main
from forewarn.cli.commands.simulator import SIMULATE
from forewarn.sim.recording import Outcome, Recording
from tests.support import recordings


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["live-migration"], "--replay cannot be combined with a scenario"),
        (["--fleet", "f.toml"], "--replay cannot be combined with --fleet"),
        (["--profile", "real"], "--replay cannot be combined with --profile real"),
        (["--name", "a"], "--replay cannot be combined with --name"),
        (["--speed", "0"], "--speed: must be 0.001 to"),
        ([], "no.jsonl cannot be read: No such file or directory"),
    ],
)
def test_options_that_replay_does_not_support_are_rejected(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", *words, "--replay", "no.jsonl"]) == 2
    assert said in capsys.readouterr().err


def test_exact_is_valid_only_with_replay(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--exact"]) == 2
    assert "--exact is only valid with --replay" in capsys.readouterr().err


def test_help_of_exact_names_the_excepted_bytes() -> None:
    (exact,) = (option for option in SIMULATE.options if option.name == "--exact")
    assert "except for the Date header" in exact.help


STILL = recordings.document(2, recordings.event())


def played(*steps: tuple[float, Outcome], seconds: float = 1) -> Recording:
    return recordings.recording((0, recordings.document(1)), *steps, seconds=seconds)


def found(
    file: Path, expect: str, capsys: pytest.CaptureFixture[str]
) -> tuple[int, list[str], ET.Element]:
    """Return the status, the verdicts on clients, and the report of a replay."""
    report = file.with_suffix(".xml")
    status = main(
        [
            *("simulate", "--replay", str(file), "--wait", "0s", "--speed", "10"),
            *("--expect", expect, "--junit", str(report)),
        ]
    )
    lines = capsys.readouterr().out.splitlines()
    texts = [line.split(None, 1)[1] for line in lines]
    verdicts = [
        line for line in texts if line.startswith(("passed", "failed", "skipped"))
    ]
    [suite] = ET.parse(report).getroot().findall("testsuite")
    assert suite.get("name") == file.stem
    return status, verdicts, suite


@pytest.mark.parametrize(
    ("expect", "status", "line", "counts"),
    [
        ("scenario", 1, "failed    client web_0 asks for its events: no client ", "01"),
        ("asked", 1, "failed    client web_0 asks for its events: no client as", "01"),
        (
            "none",
            0,
            "skipped   clients: not judged: nothing is expected of clients",
            "00",
        ),
    ],
)
def test_replay_without_client_requests_fails_or_is_not_judged(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    expect: str,
    status: int,
    line: str,
    counts: str,
) -> None:
    file = recordings.write(tmp_path / "life.jsonl", played((0.1, STILL)))
    ended, told, suite = found(file, expect, capsys)
    assert ended == status
    assert told[0].startswith(line)
    assert f"{suite.get('failures')}{suite.get('errors')}" == counts


def test_missing_approval_fails_the_replay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    started = recordings.document(3, recordings.event(status="Started"))
    file = recordings.write(
        tmp_path / "life.jsonl", played((0.1, STILL), (0.6, started))
    )
    status, told, suite = found(file, "approved", capsys)
    assert status == 1
    assert told[1].startswith(
        "failed    client web_0 approves Freeze D4713D60 of web_0: "
    )
    assert "before it was Started" in told[1]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == (
        *("2", "1", "1"),
    )


def test_recording_that_ends_before_any_verdict_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = recordings.write(tmp_path / "life.jsonl", played((0.1, STILL)))
    status, told, suite = found(file, "approved", capsys)
    assert status == 1
    assert "no event could be judged: Freeze D4713D60 of web_0 was still" in told[-1]
    # No other VM asked either.
    assert (suite.get("errors"), suite.get("skipped")) == ("2", "1")


def test_a_replay_that_takes_too_long_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = recordings.write(tmp_path / "life.jsonl", played(seconds=600))
    report = tmp_path / "report.xml"
    options = ["--replay", str(file), "--wait", "0s", "--expect", "none"]
    options += ["--timeout", "200ms", "--junit", str(report)]
    assert main(["simulate", *options]) == 1
    [error] = ET.parse(report).getroot().iter("error")
    message = str(error.get("message"))
    assert message.startswith("it did not end within 0.2 s (--timeout); it waited for")
    assert "the rest of the recording: " in message
    assert message in capsys.readouterr().out


def test_unreadable_recording_is_an_error_in_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.xml"
    report.write_text("<testsuites tests='1' failures='0'/>", encoding="utf-8")
    arguments = ["--replay", str(tmp_path / "no.jsonl"), "--junit", str(report)]
    assert main(["simulate", *arguments]) == 2
    assert "no.jsonl cannot be read" in capsys.readouterr().err
    [suite] = ET.parse(report).getroot()
    assert suite.get("name") == "no"
    [error] = suite.iter("error")
    assert "no.jsonl cannot be read" in str(error.get("message"))


def test_report_may_be_written_to_a_device(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = recordings.write(tmp_path / "life.jsonl", played(seconds=0.1))
    arguments = ["--replay", str(file), "--wait", "0s", "--expect", "none"]
    assert main(["simulate", *arguments, "--junit", "/dev/stdout"]) == 0
    assert capfd.readouterr().out.count("<testsuites") == 1


def test_second_replay_starts_after_the_requested_delay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = recordings.write(tmp_path / "life.jsonl", played((0.1, STILL), seconds=0.2))
    arguments = ["--replay", str(file), "--wait", "0s", "--expect", "none", "--json"]
    assert main(["simulate", *arguments, "--start-after", "500ms"]) == 0
    output = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    first, second = (
        datetime.fromisoformat(entry["time"])
        for entry in output
        if entry["what"] == "event"
    )
    assert (second - first).total_seconds() >= 0.55
