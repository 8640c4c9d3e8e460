"""`--watch`: the current objects, then each change, until a signal.

A terminal shows one picture that is updated in place: a row for each object, with the
time of its last change. A pipe gets a line, or a JSON document, for each change. If the
service stops, the command waits until it runs again.
"""

import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, islice
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from forewarn.cli import output, tables
from forewarn.cli.client import Client, Json
from forewarn.cli.command_table import Call, CommandError, Exit
from forewarn.cli.listings import Listing
from forewarn.cli.selecting import concerns
from forewarn.cli.stopping import interruptible, unread
from forewarn.cli.tables import counts
from forewarn.clock import SystemClock
from forewarn.instants import SECOND, Micros, format_instant
from forewarn.texts import printable

AGAIN_SECONDS = 1.0
"""Seconds between two attempts to reach a service that has stopped."""

DRAWN_SECONDS = 0.25
"""Seconds between two redraws: a change appears without a visible delay, and many
changes are drawn together."""

ENDED_MAX = 1_000
"""Maximum ended objects with a row; older ones are removed."""

LOST, BACK = "lost", "back"
"""Messages about the stream itself: it broke, and it continues."""

_TIME = slice(len("2026-11-21T"), None)


def watch(
    call: Call,
    listing: Listing,
    filters: Mapping[str, str],
    names: frozenset[str] | None = None,
) -> int:
    """Show a list and its changes until a signal, which is not a failure."""
    console = Console(highlight=False)
    state = ListState(listing, state=filters.get("state", ""), names=names)
    query = {key: value for key, value in filters.items() if key != "state"}
    query["topics"] = listing.path
    client = Client.of(call)
    with suppress(KeyboardInterrupt):
        news = follow(lambda: client.watch(query), pause=time.sleep)
        is_terminal = sys.stdout.isatty() and not console.is_dumb_terminal
        if is_terminal and not call.flag("json"):
            title = " ".join(f"{key} {value}" for key, value in filters.items())
            _picture(console, state, news, title=f"{listing.path} {title}".rstrip())
        else:
            _lines(state, news, is_json=call.flag("json"))
    return Exit.DONE


def follow(
    begin: Callable[[], Iterator[tuple[str, Any]]], *, pause: Callable[[float], None]
) -> Iterator[tuple[str, Any]]:
    """Yield the messages of a stream, and of each stream after it breaks.

    Raises CommandError if the first stream cannot begin, or if waiting cannot help.
    """
    is_open = is_lost = False
    while True:
        try:
            for item in begin():
                if is_lost:
                    yield BACK, None
                is_open, is_lost = True, False
                yield item
        except CommandError as error:
            if error.status is not Exit.UNREACHABLE or not is_open:
                raise
            if not is_lost:
                yield LOST, error.message
            is_lost = True
        pause(AGAIN_SECONDS)


class ListState:
    """The objects of a list in their last state, with the times of their changes."""

    def __init__(
        self, listing: Listing, *, state: str = "", names: frozenset[str] | None = None
    ) -> None:
        """Begin empty; show only objects in this state and with these names."""
        self.listing = listing
        self._state = state
        self._names = names
        self.changed: Micros | None = None
        """The time of the last change; None before the first."""
        self.note = ""
        """The state of the stream: broken, or running again since a time."""
        self.version = 0
        """Increases with everything that can change the picture."""
        self._objects: dict[str, Json] = {}
        self._times: dict[str, Micros] = {}
        """The time of the last change of each object that changed, the latest last."""
        self._ended: dict[str, None] = {}
        self._listed: set[str] = set()
        """The objects that the stream has sent since it began."""
        self.is_ready = False
        """Whether all current objects have come at least once."""

    def take(self, name: str, data: Any, *, now: Micros) -> bool:
        """Process a message; return whether an object looks different now."""
        self.version += 1
        if name == self.listing.path:
            return self._object(data, now)
        if name == "ready":
            self._settle()
        elif name == LOST:
            self.note = f"{data}; trying again"
        elif name == BACK:
            self.note = f"the service was away until {_clock_time(now)}"
        else:
            # Everything is sent once more.
            self._listed.clear()
        return False

    def wants(self, each: Json) -> bool:
        """Return whether an object is shown."""
        is_state = self._state in {"", str(each[self.listing.state]).lower()}
        return is_state and concerns(each, self._names)

    def _object(self, each: Json, now: Micros) -> bool:
        key = each[self.listing.key]
        before = self._objects.get(key)
        is_over = bool(each.get(self.listing.ended))
        if not self.wants(each) or (is_over and not self.listing.keeps_ended):
            if before is not None:
                self._forget(key)
                self.changed = now
            return False
        self._objects[key] = each
        self._listed.add(key)
        if before is not None and _looks(before) == _looks(each):
            return False
        if self.is_ready:
            self._times.pop(key, None)
            self._times[key] = self.changed = now
        if is_over:
            self._ended[key] = None
            if len(self._ended) > ENDED_MAX:
                self._forget(next(iter(self._ended)))
        return True

    def _settle(self) -> None:
        """Remove the objects that ended while the stream was broken."""
        for key in self._objects.keys() - self._listed - self._ended.keys():
            self._forget(key)
        self.is_ready = True

    def _forget(self, key: str) -> None:
        del self._objects[key]
        self._times.pop(key, None)
        self._ended.pop(key, None)

    def states(self) -> str:
        """Return the number of objects in each state."""
        return counts(each[self.listing.state] for each in self._objects.values())

    def latest(self, limit: int) -> tuple[list[Json], int]:
        """Return the objects that changed last, the latest first, and the number of
        others."""
        quiet = (key for key in self._objects if key not in self._times)
        keys = list(islice(chain(reversed(self._times), quiet), max(limit, 0)))
        return [self._objects[key] for key in keys], len(self._objects) - len(keys)

    def cells(self, each: Json) -> Sequence[str]:
        """Return the cells of an object, with the time of its change."""
        first, state, *rest = self.listing.row(each)
        return first, state, _clock_time(self._times.get(each[self.listing.key])), *rest


def _looks(each: Json) -> Json:
    """Return an object without the reasons that change with the time."""
    return {**each, "blocked_by": [], "blockers": []}


def _clock_time(at: Micros | None) -> str:
    return "-" if at is None else format_instant(at - at % SECOND)[_TIME]


def drawn(list_state: ListState, *, title: str, width: int, height: int) -> Text:
    """Return the picture for a terminal of `width` columns and `height` lines."""
    states = list_state.states() or list_state.listing.empty
    head = f"{title}: {states}; last change {_clock_time(list_state.changed)}"
    shown = Text("\n".join(textwrap.wrap(head, width)), style="bold")
    if list_state.note:
        shown.append("\n" + "\n".join(textwrap.wrap(list_state.note, width)), "red")
    left = height - len(shown.plain.splitlines())
    objects, others = list_state.latest(left)
    first, state, *rest = list_state.listing.columns
    cells = [tuple(map(printable, list_state.cells(each))) for each in objects]
    columns = (first, state, "CHANGED", *rest)
    fold = partial(
        tables.folded,
        columns,
        cells,
        width=width,
        # CHANGED is one of them.
        essential=list_state.listing.essential + 1,
    )
    folded = fold()
    fitting = tables.fitting(folded.blocks, height=left - 1)
    if others or fitting < len(cells):
        # As in a long table, with a last line for the number of the others.
        folded = fold(rows_max=0)
        fitting = tables.fitting(folded.blocks, height=max(left - 2, 0))
        others += len(cells) - fitting
    order = sorted(
        range(fitting), key=lambda each: list_state.listing.place(objects[each])
    )
    if order:
        blocks = [folded.blocks[each] for each in order]
        table = output.styled(folded.head, blocks, [cells[each] for each in order])
        shown.append("\n").append_text(table)
    if others:
        rest = f"\nand {others:,} more, which changed earlier or not at all"
        shown.append(rest, "dim")
    return shown


def _picture(
    console: Console, state: ListState, news: Iterator[tuple[str, Any]], *, title: str
) -> None:
    lock, is_over = threading.Lock(), threading.Event()
    clock = SystemClock()

    def now_drawn() -> Text:
        with lock:
            width, height = console.size
            return drawn(state, title=title, width=width, height=height)

    def keep_drawn(live: Live) -> None:
        shown: object = None
        while not is_over.wait(DRAWN_SECONDS):
            # An unchanged picture is not drawn again, so that text can be selected.
            if shown != (shown := (state.version, console.size)):
                with unread():
                    live.update(now_drawn(), refresh=True)

    with unread(), interruptible():
        # There is no picture before the list is complete.
        for name, data in news:
            state.take(name, data, now=clock.now())
            if state.is_ready or name == LOST:
                break
        live = Live(now_drawn(), console=console, screen=True, auto_refresh=False)
        drawing = threading.Thread(target=keep_drawn, args=[live], daemon=True)
        try:
            with live:
                drawing.start()
                try:
                    for name, data in news:
                        with lock:
                            state.take(name, data, now=clock.now())
                finally:
                    is_over.set()
                    drawing.join()
        finally:
            # The last picture stays on the terminal.
            console.print(now_drawn(), soft_wrap=True)


def _lines(state: ListState, news: Iterator[tuple[str, Any]], *, is_json: bool) -> None:
    clock = SystemClock()
    for name, data in news:
        is_new = state.take(name, data, now=clock.now())
        if name in {LOST, BACK}:
            sys.stderr.write(f"forewarn: {printable(state.note)}\n")
        elif is_json:
            if name == state.listing.path and state.wants(data):
                output.json_line(data)
        elif is_new:
            output.line("  ".join(cell for cell in state.listing.row(data) if cell))
