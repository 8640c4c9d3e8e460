"""What is watched: the picture on a terminal, and streams that break."""

import io
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from rich.text import Text

from forewarn.cli import watching
from forewarn.cli.command_table import CommandError, Exit
from forewarn.cli.listings import OPERATIONS
from forewarn.cli.watching import ListState, drawn, follow
from forewarn.instants import parse_instant
from tests.unit.cli.conftest import Ended, Served, Terminal

Run = Callable[..., Ended]

AT = parse_instant("2030-01-01T10:00:00.700Z")
LATER = parse_instant("2030-01-01T10:05:01Z")


def operation(number: int, state: str = "Announced", **members: Any) -> dict[str, Any]:
    return {
        "operation": f"op-w1380000000000{number:02d}",
        "state": state,
        "kind": "reboot",
        "impact": "reboot",
        "target_kind": "vm",
        "target": f"web_{number}",
        "vm_count": 1,
        "events": [],
        "not_before": f"2030-01-01T10:{number:02d}:00Z",
        "blocked_by": ["tenant shop has not approved (scope web)"],
        "note": "",
        "ended": None,
        **members,
    }


def begun(number: int) -> ListState:
    seen = ListState(OPERATIONS)
    for each in range(number):
        seen.take("operations", operation(each), now=AT)
    seen.take("ready", {}, now=AT)
    return seen


def picture(seen: ListState, width: int = 120, height: int = 24) -> list[str]:
    return drawn(seen, title="operations", width=width, height=height).plain.split("\n")


def test_unchanged_rows_are_kept_and_changes_show_their_time() -> None:
    seen = begun(2)
    assert not seen.take(
        "operations", operation(0, blocked_by=["NotBefore is in 5 s"]), now=AT
    )
    assert seen.take("operations", operation(1, "Ready"), now=LATER)
    head, titles, *rows = picture(seen)
    assert head == "operations: 1 Announced, 1 Ready; last change 10:05:01Z"
    assert titles.split()[:3] == ["OPERATION", "STATE", "CHANGED"]
    assert [row.split()[1:3] for row in rows if row.startswith("op-")] == [
        ["Announced", "-"],
        ["Ready", "10:05:01Z"],
    ]


def test_ended_operation_keeps_its_row() -> None:
    seen = begun(1)
    seen.take(
        "operations", operation(0, "Done", ended="2030-01-01T10:05:00Z"), now=LATER
    )
    assert picture(seen)[0] == "operations: 1 Done; last change 10:05:01Z"


def test_only_the_latest_ended_operations_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watching, "ENDED_MAX", 2)
    seen = begun(5)
    for number in range(4):
        seen.take("operations", operation(number, "Done", ended="2030"), now=LATER)
    assert seen.states() == "1 Announced, 2 Done"


@pytest.mark.parametrize("height", [4, 6, 12, 40])
def test_latest_changed_rows_are_shown_if_lines_run_out(
    height: int,
) -> None:
    seen = begun(60)
    for number in (40, 7, 23):
        seen.take("operations", operation(number, "Ready"), now=LATER)
    shown = picture(seen, height=height)
    assert len(shown) == height
    rows = [row.split()[0][-2:] for row in shown if row.startswith("op-")]
    assert len(rows) == height - 3
    changed = ["23", "07", "40"][: height - 3]
    assert set(changed) <= set(rows)
    assert rows == sorted(rows)
    assert shown[-1].startswith(f"and {60 - len(rows)} more")


@pytest.mark.parametrize(("width", "height"), [(80, 24), (40, 12), (160, 50)])
def test_display_fits_after_a_terminal_resize(width: int, height: int) -> None:
    seen = begun(3)
    seen.take(watching.LOST, "the service at http://127.0.0.1:8200 is gone", now=AT)
    shown = picture(seen, width=width, height=height)
    assert len(shown) <= height
    under = [line for line in shown if line.startswith(" ")]
    assert all(len(line) <= max(width, 24 + 8) for line in under)


def test_operation_that_ended_during_an_outage_loses_its_row() -> None:
    seen = begun(3)
    seen.take("operations", operation(2, "Done", ended="2030-01-01T10:05:00Z"), now=AT)
    seen.take(watching.LOST, "it is gone", now=AT)
    assert picture(seen)[1] == "it is gone; trying again"
    seen.take(watching.BACK, None, now=LATER)
    seen.take("reset", {}, now=LATER)
    seen.take("operations", operation(0), now=LATER)
    seen.take("operations", operation(5), now=LATER)
    seen.take("ready", {}, now=LATER)
    assert picture(seen)[1] == "the service was away until 10:05:01Z"
    rows = [row.split()[:3] for row in picture(seen) if row.startswith("op-")]
    assert [(row[0][-2:], *row[1:]) for row in rows] == [
        ("00", "Announced", "-"),
        ("02", "Done", "10:00:00Z"),
        ("05", "Announced", "10:05:01Z"),
    ]


def unreachable() -> CommandError:
    return CommandError(Exit.UNREACHABLE, "it is gone")


def streams(*each: list[Any]) -> Callable[[], Iterator[tuple[str, Any]]]:
    """Return what begins one stream after the other; an error ends one."""
    left = iter(each)

    def begin() -> Iterator[tuple[str, Any]]:
        for told in next(left):
            if isinstance(told, CommandError):
                raise told
            yield told

    return begin


def test_broken_stream_is_retried_until_it_continues() -> None:
    refused = CommandError(Exit.REFUSED, "the token was revoked")
    begin = streams(
        [("", 1), unreachable()],
        [unreachable()],
        [unreachable()],
        [("", 2), unreachable()],
        [refused],
    )
    pauses: list[float] = []
    told: list[tuple[str, Any]] = []
    with pytest.raises(CommandError, match="revoked"):
        told.extend(follow(begin, pause=pauses.append))
    assert len(pauses) == 4
    begin = streams([("", 1), unreachable()], [unreachable()], [("", 2)])
    going = follow(begin, pause=pauses.append)
    assert [next(going) for _ in range(4)] == [
        ("", 1),
        (watching.LOST, "it is gone"),
        (watching.BACK, None),
        ("", 2),
    ]


def test_stream_that_never_started_is_not_retried() -> None:
    with pytest.raises(CommandError, match="it is gone"):
        next(follow(streams([unreachable()]), pause=lambda _: None))


def test_terminal_screen_is_restored_with_the_last_display(
    service: Served,
    forewarn: Run,
    terminal: Terminal,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forewarn("maintain", "h1", "--impact", "freeze")
    terminal.columns(120)
    monkeypatch.setenv("TERM", "xterm")
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGHUP)}

    complete: list[bool] = []

    def interrupted(seen: ListState, **size: Any) -> Text:
        complete.append(seen.is_ready)
        if threading.current_thread() is not threading.main_thread():
            # A closed session sends it to its programs.
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
        return drawn(seen, **size)

    monkeypatch.setattr(watching, "drawn", interrupted)
    shown = terminal.run("operations", "--watch")
    assert all(complete)
    entered, left = shown.split("\x1b[?1049h")[1].split("\x1b[?1049l")
    assert "maintain (freeze) of host h1" in entered
    assert "operations: 1 Announced; last change -" in left
    assert "maintain (freeze) of host h1" in left
    assert {each: signal.getsignal(each) for each in before} == before


def test_wait_message_is_shown_only_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from forewarn.cli import stopping  # noqa: PLC0415

    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return self.terminal

        terminal = True

    monkeypatch.setattr(stopping, "PATIENCE_SECONDS", 0.001)
    for terminal in (True, False):
        screen = Screen()
        screen.terminal = terminal
        monkeypatch.setattr("sys.stderr", screen)
        with stopping.patience("waiting for the service"):
            while terminal and "waiting for the service: " not in screen.getvalue():
                pass
        assert screen.getvalue().endswith("\r\x1b[K") is terminal
