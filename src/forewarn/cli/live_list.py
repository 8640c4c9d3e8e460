"""A list on a terminal: one picture that is updated in place until a signal."""

import textwrap
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from forewarn.cli import drawing, tables
from forewarn.cli.list_state import LOST, ListState
from forewarn.cli.stopping import interruptible, unread
from forewarn.clock import SystemClock
from forewarn.texts import printable

DRAWN_SECONDS = 0.25
"""Seconds between two redraws: a change appears without a visible delay, and many
changes are drawn together."""


def drawn(list_state: ListState, *, title: str, width: int, height: int) -> Text:
    """Return the picture for a terminal of `width` columns and `height` lines."""
    states = list_state.states() or list_state.listing.empty
    head = f"{title}: {states}; last change {list_state.moment(list_state.changed)}"
    shown = Text("\n".join(textwrap.wrap(head, width)), style="bold")
    if list_state.note:
        shown.append("\n" + "\n".join(textwrap.wrap(list_state.note, width)), "red")
    left = height - len(shown.plain.splitlines())
    objects, others = list_state.shown(left)
    first, state, *rest = list_state.listing.columns
    cells = [tuple(map(printable, list_state.cells(object_))) for object_ in objects]
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
        range(fitting), key=lambda position: list_state.listing.place(objects[position])
    )
    if order:
        blocks = [folded.blocks[position] for position in order]
        table = drawing.styled(
            folded.head, blocks, [cells[position] for position in order]
        )
        shown.append("\n").append_text(table)
    if others:
        which = (
            "which are less urgent"
            if list_state.listing.urgency
            else "which changed earlier or at an unknown time"
        )
        shown.append(f"\nand {others:,} more, {which}", "dim")
    return shown


def show(state: ListState, news: Iterator[tuple[str, Any]], *, title: str) -> bool:
    """Show a list until `news` ends or a signal comes.

    Return False, and read no news, if the terminal cannot move its cursor.
    """
    console = Console(highlight=False)
    if console.is_dumb_terminal:
        return False
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
    return True
