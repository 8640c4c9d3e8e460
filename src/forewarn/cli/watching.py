"""`--watch`: what is, and each change, until somebody has seen enough.

A terminal shows one picture that is renewed in place: a row for each object, the quiet
ones too, and when it last changed. A pipe gets a line, or a JSON document, for each
change. A service that goes away is waited for.
"""

import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from forewarn.cli import output, tables
from forewarn.cli.client import Client
from forewarn.cli.command_table import Call
from forewarn.cli.failure import CommandError, Exit
from forewarn.cli.listings import Listing
from forewarn.cli.selecting import concerns
from forewarn.cli.stopping import interruptible, unread
from forewarn.cli.tables import counts
from forewarn.clock import SystemClock
from forewarn.instants import SECOND, Micros, format_instant
from forewarn.texts import printable

Json = Mapping[str, Any]

AGAIN_SECONDS = 1.0
"""Between two tries to reach a service that went away."""

DRAWN_SECONDS = 0.25
"""Between two pictures: a change is seen at once, and many are drawn together."""

ENDED_MAX = 1_000
"""Objects that have ended and still have a row; more scroll out of sight."""

LOST, BACK = "lost", "back"
"""What is said of the stream itself: why it broke, and that it goes on."""

_TIME = slice(len("2026-11-21T"), None)


def watch(
    call: Call,
    listing: Listing,
    asked: Mapping[str, str],
    names: frozenset[str] | None = None,
) -> int:
    """Show objects of a list and their changes until a signal, which is no failure."""
    console = Console(highlight=False)
    state = asked.get("state", "")
    seen = Seen(listing, state=state, names=names)
    query = {key: value for key, value in asked.items() if key != "state"}
    query["topics"] = listing.path
    with suppress(KeyboardInterrupt), Client.of(call) as client:
        news = follow(lambda: client.watch(query), pause=time.sleep)
        is_terminal = sys.stdout.isatty() and not console.is_dumb_terminal
        if is_terminal and not call.flag("json"):
            title = " ".join(f"{key} {value}" for key, value in asked.items())
            _picture(console, seen, news, title=f"{listing.path} {title}".rstrip())
        else:
            _lines(seen, news, is_json=call.flag("json"))
    return Exit.DONE


def follow(
    begin: Callable[[], Iterator[tuple[str, Any]]], *, pause: Callable[[float], None]
) -> Iterator[tuple[str, Any]]:
    """Yield what a stream says, and what each one says that is begun after its end.

    Raises CommandError where the first cannot begin, and for what waiting cannot mend.
    """
    is_open = is_lost = False
    while True:
        try:
            for told in begin():
                if is_lost:
                    yield BACK, None
                is_open, is_lost = True, False
                yield told
        except CommandError as error:
            if error.status is not Exit.UNREACHABLE or not is_open:
                raise
            if not is_lost:
                yield LOST, error.message
            is_lost = True
        pause(AGAIN_SECONDS)


class Seen:
    """The objects of a list, as they were last seen, and when they changed."""

    def __init__(
        self, listing: Listing, *, state: str = "", names: frozenset[str] | None = None
    ) -> None:
        """Begin without any; show only objects in this state and with these names."""
        self.listing = listing
        self._state = state
        self._names = names
        self.changed: Micros | None = None
        """When anything changed; None: not since the begin."""
        self.note = ""
        """What befell the stream last: why it is broken, or since when it goes on."""
        self.version = 0
        """Rises with everything that the picture could show."""
        self._objects: dict[str, Json] = {}
        self._times: dict[str, Micros] = {}
        """Of each that changed since the begin: when, the latest last."""
        self._ended: dict[str, None] = {}
        self._listed: set[str] = set()
        """What the stream has told since it began."""
        self._is_ready = False

    def take(self, name: str, data: Any, *, now: Micros) -> bool:
        """Take what the stream says; tell whether an object looks otherwise now."""
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
        """Tell whether an object is one of those that are shown."""
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
        if self._is_ready:
            self._times.pop(key, None)
            self._times[key] = self.changed = now
        if is_over:
            self._ended[key] = None
            if len(self._ended) > ENDED_MAX:
                self._forget(next(iter(self._ended)))
        return True

    def _settle(self) -> None:
        """Forget what has ended while nobody was told."""
        for key in self._objects.keys() - self._listed - self._ended.keys():
            self._forget(key)
        self._is_ready = True

    def _forget(self, key: str) -> None:
        del self._objects[key]
        self._times.pop(key, None)
        self._ended.pop(key, None)

    def states(self) -> str:
        """Return how many objects are where."""
        return counts(each[self.listing.state] for each in self._objects.values())

    def latest(self, most: int) -> tuple[list[Json], int]:
        """Return those that changed last, the last first, and how many others are."""
        quiet = (key for key in self._objects if key not in self._times)
        keys = list(islice(chain(reversed(self._times), quiet), max(most, 0)))
        return [self._objects[key] for key in keys], len(self._objects) - len(keys)

    def cells(self, each: Json) -> Sequence[str]:
        """Return the cells of an object, with the time of its change."""
        first, state, *rest = self.listing.row(each)
        changed = self._times.get(each[self.listing.key])
        return first, state, _clock_time(changed), *rest


def _looks(each: Json) -> Json:
    """Return an object without what changes with the time alone."""
    return {**each, "blocked_by": []}


def _clock_time(at: Micros | None) -> str:
    return "-" if at is None else format_instant(at - at % SECOND)[_TIME]


def drawn(seen: Seen, *, title: str, width: int, height: int) -> Text:
    """Return the picture for a terminal of `width` columns and `height` lines."""
    states = seen.states() or seen.listing.empty
    head = f"{title}: {states}; last change {_clock_time(seen.changed)}"
    shown = Text("\n".join(textwrap.wrap(head, width)), style="bold")
    if seen.note:
        shown.append("\n" + "\n".join(textwrap.wrap(seen.note, width)), "red")
    left = height - len(shown.plain.splitlines())
    objects, others = seen.latest(left)
    first, state, *rest = seen.listing.columns
    cells = [tuple(map(printable, seen.cells(each))) for each in objects]
    columns = (first, state, "CHANGED", *rest)
    folded = tables.folded(columns, cells, width=width)
    fitting = tables.fitting(folded.blocks, height=left - 1)
    if others or fitting < len(cells):
        # One line for each, and the last says how many others there are.
        folded = tables.folded(columns, cells, width=width, rows_max=0)
        fitting = min(len(cells), max(left - 2, 0))
        others += len(cells) - fitting
    order = sorted(range(fitting), key=lambda each: seen.listing.place(objects[each]))
    if order:
        blocks = [folded.blocks[each] for each in order]
        table = output.styled(folded.head, blocks, [cells[each] for each in order])
        shown.append("\n").append_text(table)
    if others:
        rest = f"\nand {others:,} more, which changed earlier or not at all"
        shown.append(rest, "dim")
    return shown


def _picture(
    console: Console, seen: Seen, news: Iterator[tuple[str, Any]], *, title: str
) -> None:
    lock, is_over = threading.Lock(), threading.Event()
    clock = SystemClock()

    def now_drawn() -> Text:
        with lock:
            width, height = console.size
            return drawn(seen, title=title, width=width, height=height)

    def keep_drawn(live: Live) -> None:
        shown: object = None
        while not is_over.wait(DRAWN_SECONDS):
            # A picture that stays can be copied from.
            if shown != (shown := (seen.version, console.size)):
                with unread():
                    live.update(now_drawn(), refresh=True)

    # No picture before the service has answered.
    name, data = next(news)
    seen.take(name, data, now=clock.now())
    with unread(), interruptible():
        live = Live(now_drawn(), console=console, screen=True, auto_refresh=False)
        drawing = threading.Thread(target=keep_drawn, args=[live], daemon=True)
        try:
            with live:
                drawing.start()
                try:
                    for name, data in news:
                        with lock:
                            seen.take(name, data, now=clock.now())
                finally:
                    is_over.set()
                    drawing.join()
        finally:
            # What was seen last stays when the picture goes.
            console.print(now_drawn(), soft_wrap=True)


def _lines(seen: Seen, news: Iterator[tuple[str, Any]], *, is_json: bool) -> None:
    clock = SystemClock()
    for name, data in news:
        is_new = seen.take(name, data, now=clock.now())
        if name in {LOST, BACK}:
            sys.stderr.write(f"forewarn: {printable(seen.note)}\n")
        elif is_json:
            if name == seen.listing.path and seen.wants(data):
                output.json_line(data)
        elif is_new:
            output.line("  ".join(cell for cell in seen.listing.row(data) if cell))
