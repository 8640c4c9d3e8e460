"""The layout of every table of the command line.

A pipe gets a line for each row, however long. On a terminal, columns are in the order
of their importance. Columns that fit are in the row, and the cells of the others are in
lines below it, with their titles. A long table has one line for each row, and names the
columns that are left out. Lines break only between words, so that IDs and names can be
copied at any width.
"""

import shutil
import sys
import textwrap
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

Cells = Sequence[str]

STYLES = {
    "Planned": "dim",
    "Announced": "cyan",
    "Scheduled": "cyan",
    "Ready": "yellow",
    "Impacting": "bold yellow",
    "Started": "bold yellow",
    "Recovering": "blue",
    "Done": "green",
    "Removed": "green",
    "Cancelled": "dim",
    "Failed": "bold red",
    "Stopped": "bold red",
    "down": "bold red",
    "deleted": "dim",
}
"""Styles of states on a terminal; states are counted in this order."""

BETWEEN = "  "
"""Between two columns, and between two cells below a row."""

INDENT = "    "
"""Indentation of lines below a row."""

MARGIN = 24
"""Minimum columns of a line below a row, on any terminal."""

FOLDED_ROWS_MAX = 50
"""Maximum rows of a table with lines below rows: a longer one should show many rows."""

_NOTHING = frozenset({"", "-"})
"""Cells without content, which are left out below a row."""


def lines(columns: Cells, rows: Sequence[Cells]) -> list[str]:
    """Return the lines of a table without styles, for a terminal or a pipe."""
    if not sys.stdout.isatty():
        return aligned(columns, rows)
    table = folded(columns, rows, width=shutil.get_terminal_size().columns)
    return [table.head, *(line for block in table.blocks for line in block)]


def aligned(columns: Cells, rows: Sequence[Cells]) -> list[str]:
    """Return the lines of a table for a pipe: the titles, then a line for each row."""
    widths = _widths(columns, rows)
    return [_row(cells, widths) for cells in (columns, *rows)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """A table for a terminal."""

    head: str
    """The titles of the columns that fit."""
    blocks: list[list[str]]
    """For each row of the table: its line, and the lines below it."""
    left_out: tuple[str, ...]
    """The titles of the columns that do not fit in a long table."""


def folded(
    columns: Cells,
    rows: Sequence[Cells],
    *,
    width: int,
    rows_max: int = FOLDED_ROWS_MAX,
) -> Folded:
    """Return a table for a terminal of `width` columns.

    With more than `rows_max` rows, each has one line. A cell that is longer than the line alone, such as the first, stays whole.
    """
    widths = _widths(columns, rows)
    kept: list[int] = []
    used = -len(BETWEEN)
    for place, wide in enumerate(widths):
        if not kept or used + len(BETWEEN) + wide <= width:
            kept.append(place)
            used += len(BETWEEN) + wide
    rest = [place for place in range(len(columns)) if place not in kept]
    is_long = len(rows) > rows_max

    def shown(cells: Cells) -> str:
        return _row([cells[each] for each in kept], [widths[each] for each in kept])

    def under(cells: Cells) -> list[str]:
        told = [
            f"{columns[each].lower()}: {cells[each]}".removeprefix(": ")
            for each in rest
            if cells[each] not in _NOTHING
        ]
        return [] if is_long else _under(told, width=max(width, MARGIN))

    return Folded(
        head=shown(columns),
        blocks=[[shown(cells), *under(cells)] for cells in rows],
        left_out=tuple(columns[each] for each in rest) if is_long else (),
    )


def fitting(blocks: Sequence[Sequence[str]], *, height: int) -> int:
    """Return how many of the first rows fit in `height` lines."""
    return sum(1 for used in accumulate(map(len, blocks)) if used <= height)


def count(number: int, what: str) -> str:
    """Return a number with a noun whose plural ends in s: `6,000 VMs`."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def counts(found: Iterable[str]) -> str:
    """Return the number of each word: `1 Announced, 399 Planned`."""
    by_word = Counter(found)
    places = {word: place for place, word in enumerate(STYLES)}
    words = sorted(by_word, key=lambda word: places.get(word, -1))
    return ", ".join(f"{by_word[word]:,} {word}" for word in words)


def _widths(columns: Cells, rows: Sequence[Cells]) -> list[int]:
    return [max(map(cell_len, column)) for column in zip(columns, *rows, strict=True)]


def _row(cells: Cells, widths: Sequence[int]) -> str:
    return BETWEEN.join(
        cell + " " * (width - cell_len(cell))
        for cell, width in zip(cells, widths, strict=True)
    ).rstrip()


def cell_len(text: str) -> int:
    """Return the columns that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        (2 if unicodedata.east_asian_width(each) in "WF" else 1)
        for each in text
        if not unicodedata.combining(each)
    )


def _under(cells: Sequence[str], *, width: int) -> list[str]:
    """Return cells in lines: several in one line if they fit, a long one in several."""
    lines: list[str] = []
    for cell in cells:
        joined = lines[-1] + BETWEEN + cell if lines else ""
        if joined and cell_len(joined) <= width:
            lines[-1] = joined
            continue
        lines += textwrap.wrap(
            cell,
            width,
            initial_indent=INDENT,
            subsequent_indent=INDENT + BETWEEN,
            break_long_words=False,
            break_on_hyphens=False,
        )
    return lines
