"""Recordings for tests, as `forewarn record` would have written them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from forewarn.instants import SECOND, format_http_date
from forewarn.sim.engine import START
from forewarn.sim.recording import (
    Answer,
    Failed,
    Header,
    Moment,
    Outcome,
    Recording,
    Writer,
)

FREEZE = "D4713D60-C8A7-4639-AB11-67B367A9C378"
REBOOT = "0A1B2C3D-C8A7-4639-AB11-67B367A9C378"


def event(
    event_id: str = FREEZE,
    *,
    status: str = "Scheduled",
    event_type: str = "Freeze",
    not_before: float = 900,
    vms: Sequence[str] = ("web_0",),
) -> dict[str, Any]:
    """Return an event in the form of a document; NotBefore is in seconds from the start."""
    moment = format_http_date(START + round(not_before * SECOND))
    return {
        "EventId": event_id,
        "EventStatus": status,
        "EventType": event_type,
        "ResourceType": "VirtualMachine",
        "Resources": [*vms],
        "NotBefore": "" if status == "Started" else moment,
        "Description": "",
        "EventSource": "Platform",
        "DurationInSeconds": 5,
    }


def document(number: int, *events: dict[str, Any]) -> Answer:
    """Return the answer that shows these events."""
    content = {"DocumentIncarnation": number, "Events": [*events]}
    body = json.dumps(content, separators=(",", ":")).encode()
    headers = (("ETag", f'"{number}"'), ("Content-Type", "application/json"))
    return Answer(status=200, headers=headers, body=body)


def recording(
    *steps: tuple[float, Outcome], vm: str = "web_0", seconds: float = 10
) -> Recording:
    """Return a recording with these outcomes, `seconds` longer than the last."""
    moments = tuple(
        Moment(at=round(at * SECOND), outcome=outcome) for at, outcome in steps
    )
    return Recording(
        header=Header(api_version="2020-07-01", started=START, poll=SECOND, vm=vm),
        moments=moments,
        length=moments[-1].at + round(seconds * SECOND),
        polls=1,
    )


def write(file: Path, played: Recording) -> Path:
    """Write a recording to a file; return the file."""
    writer = Writer()
    lines = [writer.header(played.header)]
    lines += [writer.moment(moment) for moment in played.moments]
    lines.append(writer.end(played.length, "interrupted"))
    file.write_text("".join(lines), encoding="utf-8")
    return file


def life(*, failure: Failed | None = None) -> Recording:
    """Return the recording of a Freeze: shown at 10 s, Started at 60 s, gone at 90 s.

    `failure` is what befell at 30 s, until 40 s.
    """
    shown = document(2, event())
    steps: list[tuple[float, Outcome]] = [(0, document(1)), (10, shown)]
    if failure is not None:
        steps += [(30, failure), (40, shown)]
    steps += [(60, document(3, event(status="Started"))), (90, document(4))]
    return recording(*steps)
