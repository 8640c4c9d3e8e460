"""The picture on a terminal that `--watch` redraws, and streams that break."""

import io
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from rich.text import Text

from forewarn.cli import list_state, live_list, watching
from forewarn.cli.command_table import CommandError, Exit
from forewarn.cli.list_state import BACK, LOST, ListState
from forewarn.cli.listings import OPERATIONS, ROLLOUTS
from forewarn.cli.live_list import drawn
from forewarn.cli.watching import follow, repeated
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
    state = ListState(OPERATIONS)
    for index in range(number):
        state.take("operations", operation(index), now=AT)
    state.take("ready", {}, now=AT)
    return state


def picture(seen: ListState, width: int = 120, height: int = 24) -> list[str]:
    return drawn(seen, title="operations", width=width, height=height).plain.split("\n")


def test_unchanged_rows_are_kept_and_changes_show_their_time() -> None:
    state = begun(2)
    assert not state.take(
        "operations", operation(0, blocked_by=["NotBefore is in 5 s"]), now=AT
    )
    assert state.take("operations", operation(1, "Ready"), now=LATER)
    head, titles, *rows = picture(state)
    assert head == "operations: 1 Announced, 1 Ready; last change 10:05:01Z"
    assert titles.split()[:3] == ["OPERATION", "STATE", "CHANGED"]
    assert [row.split()[1:3] for row in rows if row.startswith("op-")] == [
        ["Announced", "-"],
        ["Ready", "10:05:01Z"],
    ]


def test_times_of_changes_are_known_from_the_beginning() -> None:
    state = ListState(OPERATIONS)
    started = {"created": "2029-12-31T09:00:00Z", "started": "2030-01-01T09:30:00.5Z"}
    state.take("operations", operation(0, "Impacting", **started), now=AT)
    old: dict[str, Any] = {"created": "2029-12-31T09:00:00Z", "started": None}
    state.take("operations", operation(1, **old), now=AT)
    state.take("ready", {}, now=AT)
    head, _, *rows = picture(state)
    assert head.endswith("last change 09:30:00Z")
    assert [row.split()[1:3] for row in rows if row.startswith("op-")] == [
        ["Impacting", "09:30:00Z"],
        ["Announced", "2029-12-31"],
    ]
    one, others = state.shown(1)
    assert (one[0]["state"], others) == ("Impacting", 1)


def test_ended_operation_keeps_its_row() -> None:
    state = begun(1)
    state.take(
        "operations", operation(0, "Done", ended="2030-01-01T10:05:00Z"), now=LATER
    )
    assert picture(state)[0] == "operations: 1 Done; last change 10:05:01Z"


def test_only_the_latest_ended_operations_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(list_state, "ENDED_MAX", 2)
    state = begun(5)
    for number in range(4):
        state.take("operations", operation(number, "Done", ended="2030"), now=LATER)
    assert state.states() == "1 Announced, 2 Done"


@pytest.mark.parametrize("height", [4, 6, 12, 40])
def test_latest_changed_rows_are_shown_if_lines_run_out(
    height: int,
) -> None:
    state = begun(60)
    for number in (40, 7, 23):
        state.take("operations", operation(number, "Ready"), now=LATER)
    shown = picture(state, height=height)
    assert len(shown) == height
    rows = [row.split()[0][-2:] for row in shown if row.startswith("op-")]
    assert len(rows) == height - 3
    changed = ["23", "07", "40"][: height - 3]
    assert set(changed) <= set(rows)
    assert rows == sorted(rows)
    assert shown[-1].startswith(f"and {60 - len(rows)} more")


@pytest.mark.parametrize(("width", "height"), [(80, 24), (40, 12), (160, 50)])
def test_display_fits_after_a_terminal_resize(width: int, height: int) -> None:
    state = begun(3)
    state.take(LOST, "the service at http://127.0.0.1:8200 is gone", now=AT)
    shown = picture(state, width=width, height=height)
    assert len(shown) <= height
    under = [line for line in shown if line.startswith(" ")]
    assert all(len(line) <= max(width, 24 + 8) for line in under)


def test_operation_that_ended_during_an_outage_loses_its_row() -> None:
    state = begun(3)
    state.take("operations", operation(2, "Done", ended="2030-01-01T10:05:00Z"), now=AT)
    state.take(LOST, "it is gone", now=AT)
    assert picture(state)[1] == "it is gone; trying again"
    state.take(BACK, None, now=LATER)
    state.take("reset", {}, now=LATER)
    state.take("operations", operation(0), now=LATER)
    state.take("operations", operation(5), now=LATER)
    state.take("ready", {}, now=LATER)
    assert picture(state)[1] == "the service was away until 10:05:01Z"
    rows = [row.split()[:3] for row in picture(state) if row.startswith("op-")]
    assert [(row[0][-2:], *row[1:]) for row in rows] == [
        ("00", "Announced", "-"),
        ("02", "Done", "10:00:00Z"),
        ("05", "Announced", "10:05:01Z"),
    ]


def unreachable() -> CommandError:
    return CommandError(Exit.UNREACHABLE, "it is gone")


def streams(*messages: list[Any]) -> Callable[[], Iterator[tuple[str, Any]]]:
    """Return what begins one stream after the other; an error ends one."""
    left = iter(messages)

    def begin() -> Iterator[tuple[str, Any]]:
        for message in next(left):
            if isinstance(message, CommandError):
                raise message
            yield message

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
    messages: list[tuple[str, Any]] = []
    with pytest.raises(CommandError, match="revoked"):
        messages.extend(follow(begin, pause=pauses.append))
    assert len(pauses) == 4
    begin = streams([("", 1), unreachable()], [unreachable()], [("", 2)])
    going = follow(begin, pause=pauses.append)
    assert [next(going) for _ in range(4)] == [
        ("", 1),
        (LOST, "it is gone"),
        (BACK, None),
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
    before = {
        signal_number: signal.getsignal(signal_number)
        for signal_number in (signal.SIGTERM, signal.SIGHUP)
    }

    complete: list[bool] = []

    def interrupted(seen: ListState, **size: Any) -> Text:
        complete.append(seen.is_ready)
        if threading.current_thread() is not threading.main_thread():
            # A closed session sends it to its programs.
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
        return drawn(seen, **size)

    monkeypatch.setattr(live_list, "drawn", interrupted)
    shown = terminal.run("operations", "--watch")
    assert all(complete)
    entered, left = shown.split("\x1b[?1049h")[1].split("\x1b[?1049l")
    assert "maintain (freeze) of host h1" in entered
    assert "operations: 1 Announced; last change 2030-01-01" in left
    assert "maintain (freeze) of host h1" in left
    assert {
        signal_number: signal.getsignal(signal_number) for signal_number in before
    } == before


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


def test_list_without_a_stream_is_read_again_and_loses_ended_objects() -> None:
    rollout = {"rollout": "ro-1", "state": "Open", "created": "2030-01-01T09:00:00Z"}
    reads = iter([[rollout, {**rollout, "rollout": "ro-2"}], [rollout]])
    pauses: list[float] = []
    state = ListState(ROLLOUTS)
    sums: list[str] = []
    messages = repeated(lambda: next(reads), ROLLOUTS.path, pause=pauses.append)
    while len(sums) < 2:
        name, data = next(messages)
        state.take(name, data, now=AT)
        if name == "ready":
            sums.append(state.states())
    assert sums == ["2 Open", "1 Open"]
    assert pauses == [watching.READ_SECONDS]
