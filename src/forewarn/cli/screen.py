"""Output of a simulation: lines for pipes, JSON Lines for programs, or a screen.

A screen shows the current state, refreshed several times a second: the documents and
addresses of VMs, their last requests, pending steps, and the latest news below.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from forewarn.cli import drawing, output
from forewarn.cli.stopping import unread
from forewarn.instants import SECOND, Micros, describe_duration, format_instant
from forewarn.sim.news import EventPicture, News, Picture, VmPicture, What, picture
from forewarn.sim.simulator import Simulator
from forewarn.texts import printable

RENEW_SECONDS = 0.5
"""Seconds between two redraws: a countdown in seconds stays correct, and a redraw takes
some milliseconds in which no VM gets an answer."""

NEWS_SHOWN = 12
"""Maximum news below the picture."""

ID_CHARACTERS = 8
"""Digits of an EventId, enough to distinguish those on a screen."""

_VM_COLUMNS = ("VM", "FOREWARN_ENDPOINT", "STATE", "DOCUMENT", "EVENTS", "ASKED", "")
_EVENT_COLUMNS = ("EVENT", "TYPE", "STATUS", "VMS", "NOT BEFORE", "APPROVED BY")

_STYLES = {
    What.DEVIATION: "bold red",
    What.FAILED: "bold red",
    What.REFUSED: "red",
    What.FAULT: "yellow",
    What.PASSED: "green",
    What.SKIPPED: "bold yellow",
    What.APPROVED: "green",
    What.STEP: "cyan",
    What.BEGIN: "bold cyan",
}


_KEPT = frozenset({What.PASSED, What.FAILED, What.SKIPPED, What.DEVIATION})
"""News to read later, which stay above the picture."""


class Lines:
    """A receiver of news that prints a line for each item, at once."""

    def __init__(self, *, is_json: bool) -> None:
        """Print JSON Lines, or lines for a person."""
        self._is_json = is_json

    def show(self, news: News) -> None:
        """Print a line, unless the reader has closed the pipe."""
        # The simulator continues to serve VMs, and sets the exit status at its end.
        with unread():
            if self._is_json:
                output.json_line(news.members())
            else:
                output.line(news.line(), exact=True)

    def begin(self, simulator: Simulator) -> None:
        """Show the state of the simulator from now on; lines show only news."""

    async def end(self) -> None:
        """Show only news from now on."""


class Screen(Lines):
    """A picture that is refreshed, and the latest news."""

    def __init__(self, console: Console | None = None) -> None:
        """Draw on `console`; default: the terminal."""
        self._console = console or Console(highlight=False)
        self._news: deque[News] = deque(maxlen=NEWS_SHOWN)
        self._live: Live | None = None
        self._task: asyncio.Task[None] | None = None

    def show(self, news: News) -> None:
        """Add an item of news to the next picture, or print it if there is no
        picture."""
        if self._live is not None and news.what not in _KEPT:
            self._news.append(news)
            return
        with unread():
            self._console.print(news_line(news))

    def begin(self, simulator: Simulator) -> None:
        """Draw from now on."""
        self._live = Live(console=self._console, auto_refresh=False)
        with unread():
            self._live.start()
        self._task = asyncio.create_task(self._draw(self._live, simulator))

    async def end(self) -> None:
        """Leave the last picture on the terminal."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        if self._live is not None:
            with unread():
                self._live.stop()
            self._live = None

    async def _draw(self, live: Live, simulator: Simulator) -> None:
        while True:
            now = picture(simulator.stage, simulator.addresses())
            shown = rendered(
                now,
                list(self._news),
                width=self._console.width,
                playing=simulator.playing,
            )
            with unread():
                live.update(shown, refresh=True)
            await asyncio.sleep(RENEW_SECONDS)


def rendered(
    now: Picture, news: list[News], *, width: int, playing: str = ""
) -> RenderableType:
    """Return a picture for a terminal of `width` columns."""
    parts: list[RenderableType] = [_head(now, playing), Text()]
    parts += _table(_VM_COLUMNS, map(_vm_cells, now.vms), now.more_vms, width)
    if now.events:
        parts += _table(
            _EVENT_COLUMNS, map(_event_cells, now.events), now.more_events, width
        )
    parts += [Text(f"fault: {fault}", style="yellow") for fault in now.faults]
    parts += [news_line(event) for event in news]
    return Group(*parts)


def _table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], more: int, width: int
) -> Iterator[Text]:
    """Yield a table, the number of rows that do not fit, and an empty line."""
    cells = [tuple(map(printable, row)) for row in rows]
    yield drawing.drawn(columns, cells, width=width)
    if more:
        yield Text(f"and {more} more")
    yield Text()


def _head(now: Picture, playing: str) -> Text:
    whole = now.now - now.now % SECOND
    parts = [format_instant(whole), f"speed {now.speed:g}", f"requests {now.requests}"]
    if playing:
        parts.append(f"playing {playing}")
    if now.paused:
        parts.append("PAUSED")
    return Text("  ".join(map(printable, parts)), style="bold")


def _vm_cells(vm: VmPicture) -> tuple[str, ...]:
    last_request = "never"
    if vm.asked is not None:
        last_request = f"{_ago(vm.asked)}: {vm.status or 'no answer'}"
    return (
        vm.name,
        vm.url or "-",
        vm.state,
        "-" if vm.incarnation is None else str(vm.incarnation),
        str(vm.events),
        last_request,
        "approvals withheld" if vm.withheld else "",
    )


def _event_cells(event: EventPicture) -> tuple[str, ...]:
    return (
        event.event_id[:ID_CHARACTERS],
        event.event_type,
        event.status,
        ", ".join(event.vms),
        "" if event.left is None else f"in {describe_duration(event.left)}",
        event.approved_by,
    )


def _ago(duration: Micros) -> str:
    """Return the time since an instant, rounded down to seconds."""
    if duration < SECOND:
        return "now"
    return f"{describe_duration(duration - duration % SECOND)} ago"


def news_line(news: News) -> Text:
    """Return an item of news for a terminal."""
    return Text(printable(news.line()), style=_STYLES.get(news.what, ""))
