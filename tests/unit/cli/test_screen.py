"""How a simulation looks: on a terminal, in lines, in JSON Lines."""

import io
import json

import pytest
from rich.console import Console

from forewarn.cli.screen import Lines, Screen, rendered
from forewarn.instants import MINUTE, SECOND, parse_instant
from forewarn.sim.news import EventPicture, News, Picture, VmPicture, What

NOW = parse_instant("2026-11-21T10:00:00.500Z")

PICTURE = Picture(
    now=NOW,
    paused=True,
    speed=60,
    vms=(
        VmPicture(
            name="web_0",
            url="http://127.0.0.1:8301",
            state="running",
            incarnation=2,
            events=1,
            asked=3 * SECOND + 400_000,
            status=200,
            withheld=True,
        ),
        VmPicture(
            name="web_1",
            url="http://127.0.0.1:8302",
            state="deleted",
            incarnation=None,
            events=0,
            asked=None,
            status=0,
            withheld=False,
        ),
    ),
    more_vms=7,
    events=(
        EventPicture(
            event_id="C7061BAC-AFDC-4513-B24B-AA5F13A16123",
            event_type="Reboot",
            status="Scheduled",
            vms=("web_0", "web_1"),
            left=2 * MINUTE + 5 * SECOND,
            approved_by="",
        ),
        EventPicture(
            event_id="2F44D9AF-8DD8-47EB-BF9C-8E77374D5F1F",
            event_type="Freeze",
            status="Started",
            vms=("web_1",),
            left=None,
            approved_by="web_0",
        ),
    ),
    more_events=0,
    faults=("web_0: 500 x2",),
    requests=12,
)

NEWS = News(
    at=NOW,
    what=What.APPROVED,
    text="web_0: C7061BAC",
    facts={"vm": "web_0", "events": ["C7061BAC"]},
)

SHOWN = """\
2026-11-21T10:00:00Z  speed 60  requests 12  playing platform-reboot  PAUSED
 VM          FOREWARN_ENDPOINT      STATE    DOCUMENT  EVENTS  ASKED
 web_0       http://127.0.0.1:8301  running  2         1       3 s ago: 200  approvals withheld
 web_1       http://127.0.0.1:8302  deleted  -         0       never
 and 7 more
 EVENT     TYPE    STATUS     VMS           NOT BEFORE  APPROVED BY
 C7061BAC  Reboot  Scheduled  web_0, web_1  in 2 m 5 s
 2F44D9AF  Freeze  Started    web_1                     web_0
fault: web_0: 500 x2
2026-11-21T10:00:00.500Z approved  web_0: C7061BAC
"""


def shown(*things: object) -> str:
    console = Console(file=io.StringIO(), width=110, color_system=None)
    for thing in things:
        console.print(thing)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def words(text: str) -> list[list[str]]:
    """Return the words of each line that has any: columns are rich's own affair."""
    lines = (line.replace("─", " ").split() for line in text.splitlines())
    return [line for line in lines if line]


def test_picture_shows_what_each_vm_is_served_and_what_comes_next() -> None:
    picture = shown(rendered(PICTURE, [NEWS], width=110, playing="platform-reboot"))
    assert words(picture) == words(SHOWN)


def test_terminal_escapes_in_names_are_removed() -> None:
    news = News(at=NOW, what=What.STEP, text="\x1b[2J evil")
    assert "\x1b" not in shown(rendered(PICTURE, [news], width=110))


def test_news_is_printed_while_no_live_display_is_shown() -> None:
    console = Console(file=io.StringIO(), width=110, color_system=None)
    Screen(console).show(NEWS)
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().split() == NEWS.line().split()


def test_line_has_the_time_the_kind_and_the_details() -> None:
    assert NEWS.line() == "2026-11-21T10:00:00.500Z approved  web_0: C7061BAC"


def test_lines_are_printed_as_text_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    Lines(is_json=False).show(NEWS)
    Lines(is_json=True).show(NEWS)
    plain, members = capsys.readouterr().out.splitlines()
    assert plain == NEWS.line()
    assert json.loads(members) == {
        "time": "2026-11-21T10:00:00.500Z",
        "what": "approved",
        "text": "web_0: C7061BAC",
        "vm": "web_0",
        "events": ["C7061BAC"],
    }
