"""The pages of receivers: their tables and examples are what is sent."""

import re
from pathlib import Path

import pytest

from forewarn import chat
from forewarn.agent.core.model import Note, NoteKind
from forewarn.agent.sinks import eventlog, journald, syslog, wording
from forewarn.agent.sinks.port import Notification
from forewarn.agent.sinks.wording import Severity
from forewarn.instants import parse_instant
from forewarn.protocol.decoder import decode
from tests.support.notes import told_of

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "how-to" / "agent" / "integrations"


def page(word: str) -> str:
    return (PAGES / f"{word}.md").read_text(encoding="utf-8")


def rows(text: str, columns: int) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if len(row) == columns]


def example() -> Notification:
    """Return what the pages show: the announcement of the example's event."""
    raw = (ROOT / "examples" / "agent" / "events.json").read_bytes()
    notice = decode(raw).notices[0]
    note = Note(
        at=parse_instant("2026-11-21T22:00:01Z"),
        kind=NoteKind.SEEN,
        event_id=notice.event_id,
        notice=notice,
    )
    return Notification(vm="web_0", note=note)


def test_journald_ids_match_the_page() -> None:
    table = rows(page("journald"), 2)
    shown = dict(row for row in table if re.fullmatch("`[0-9a-f]{32}`", row[1]))
    assert shown == {
        f"`{kind.value}`": f"`{number}`"
        for kind, number in journald.MESSAGE_IDS.items()
    }
    named = set(re.findall(r"`(FOREWARN_\w+)`", page("journald")))
    entry = journald.entry(1, told_of(detail="x", handler="y"), identifier="z")
    assert named == {name.decode() for name in re.findall(rb"FOREWARN_[A-Z_]+", entry)}


def test_event_log_numbers_match_the_page() -> None:
    shown = {
        row[1]: (row[0], row[2].split(";")[0]) for row in rows(page("eventlog"), 3)
    }
    types = {Severity.ERROR: "Error", Severity.WARNING: "Warning"}
    for kind, number in eventlog.NUMBERS.items():
        grave = types.get(wording.severity(told_of(kind)), "Information")
        assert shown[f"`{kind.value}`"] == (str(number), grave)


@pytest.mark.parametrize("kind", NoteKind)
def test_severities_match_the_page(kind: NoteKind) -> None:
    [row] = [
        row
        for row in rows(page("syslog"), 2)
        if row[0].startswith(("error", "warning", "notice", "informational"))
        and f"`{kind.value}`" in row[1].replace("`handler`, if it failed", "")
    ]
    assert f"({wording.severity(told_of(kind)).value})" in row[0]


def test_documented_message_matches_the_sent_message() -> None:
    [shown] = re.findall(r"```text\n(.*)\n```", page("syslog"))
    notification = example()
    sent = syslog.message(
        17, notification, facility="daemon", sd_id=syslog.SD_ID, bytes_max=8_192
    ).decode()
    sent = re.sub(r"(forewarn-agent) \d+ ", r"\1 812 ", sent)
    assert shown == sent.replace(notification.note.event_id, "4F2C8A10-…")
    assert f"> **{wording.title(notification)}**" in page("slack")
    assert f"> {wording.sentence(notification)}\n" in page("slack")
    assert [mark.strip(":") for mark in chat._MARKS.values()] == [
        "red_circle",
        "large_yellow_circle",
        "large_blue_circle",
        "white_circle",
    ]
