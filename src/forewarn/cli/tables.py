"""The layout of every table of the command line.

A pipe gets a line for each row, however long. On a terminal, columns are in the order
of their importance. Columns that fit are in the row, and the cells of the others are in
lines below it, with their titles. A long table has only its essential columns below a
row, shortens the next one, and names the columns that it does not show completely. Lines
break only between words, and not in commands in backticks, so that IDs, names and
commands can be copied at any width.
"""

import re
import shutil
import sys
import textwrap
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, takewhile

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

SHORTENED_MIN = 20
"""Minimum columns of a shortened cell: a shorter one has too few words to be read."""

CUT = "…"
"""The end of a shortened cell."""

_COMMAND = re.compile(r"`[^`]*`|^(?:[a-z ]+: )?forewarn [^`]*$")
"""A command in backticks, or a cell that is a command, with its title."""

_JOINER = "\0"
"""Replaces the spaces of a command while its text is broken into lines."""

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
    rows = _in_seconds(rows)
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
    """The titles of the columns that a long table leaves out or shortens."""


def folded(
    columns: Cells,
    rows: Sequence[Cells],
    *,
    width: int,
    essential: int = 1,
    rows_max: int = FOLDED_ROWS_MAX,
) -> Folded:
    """Return a table for a terminal of `width` columns.

    With more than `rows_max` rows, only the first `essential` columns can be below a
    row. A cell that is longer than the line alone, such as the first, stays whole.
    """
    rows = _in_seconds(rows)
    widths = _widths(columns, rows)
    columns_kept, used = _fitting_columns(widths, width=width)
    rest = [place for place in range(len(columns)) if place not in columns_kept]
    left_out: tuple[str, ...] = ()
    if len(rows) > rows_max:
        others = [place for place in rest if place >= essential]
        rest = [place for place in rest if place < essential]
        left_out = tuple(columns[place] for place in others)
        left = width - used - len(BETWEEN)
        if others and left >= SHORTENED_MIN:
            cut = others[0]
            columns_kept = sorted([*columns_kept, cut])
            widths[cut] = left
            rows = [_with_cut(cells, cut, width=left) for cells in rows]

    def shown(cells: Cells) -> str:
        return _row(
            [cells[column] for column in columns_kept],
            [widths[column] for column in columns_kept],
        )

    def under(cells: Cells) -> list[str]:
        lines = [
            f"{columns[column].lower()}: {cells[column]}".removeprefix(": ")
            for column in rest
            if cells[column] not in _NOTHING
        ]
        return _under(lines, width=max(width, MARGIN))

    return Folded(
        head=shown(columns),
        blocks=[[shown(cells), *under(cells)] for cells in rows],
        left_out=left_out,
    )


def _fitting_columns(widths: Sequence[int], *, width: int) -> tuple[list[int], int]:
    """Return the places of the columns that fit in a row, and the width that they
    take."""
    columns_kept: list[int] = []
    used = -len(BETWEEN)
    for place, wide in enumerate(widths):
        if not columns_kept or used + len(BETWEEN) + wide <= width:
            columns_kept.append(place)
            used += len(BETWEEN) + wide
    return columns_kept, used


def _with_cut(cells: Cells, place: int, *, width: int) -> Cells:
    """Return a row in which one cell has only the first words that fit."""
    if cell_len(cells[place]) <= width:
        return cells
    cell_words = _COMMAND.sub(_joined, cells[place]).split()
    room = width - cell_len(f" {CUT}")
    ends = accumulate(cell_len(word) + 1 for word in cell_words)
    fit = sum(1 for _ in takewhile(lambda end: end - 1 <= room, ends))
    short = " ".join([*cell_words[:fit], CUT]).replace(_JOINER, " ")
    return (*cells[:place], short, *cells[place + 1 :])


def fitting(blocks: Sequence[Sequence[str]], *, height: int) -> int:
    """Return how many of the first rows fit in `height` lines."""
    return sum(1 for used in accumulate(map(len, blocks)) if used <= height)


_FRACTION = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d+Z")


def second(text: str) -> str:
    """Return text with its instants of the API without fractions of a second.

    People compare minutes; --json has the whole instants. `output` calls it for each line,
    and a table for its cells.
    """
    return _FRACTION.sub(r"\1Z", text)


def _in_seconds(rows: Sequence[Cells]) -> list[Cells]:
    return [tuple(map(second, cells)) for cells in rows]


def counts(states: Iterable[str]) -> str:
    """Return the number of each word: `1 Announced, 399 Planned`."""
    by_word = Counter(states)
    places = {word: place for place, word in enumerate(STYLES)}
    states_in_order = sorted(by_word, key=lambda word: places.get(word, -1))
    return ", ".join(f"{by_word[word]:,} {word}" for word in states_in_order)


def _widths(columns: Cells, rows: Sequence[Cells]) -> list[int]:
    return [max(map(cell_len, column)) for column in zip(columns, *rows, strict=True)]


def _row(cells: Cells, widths: Sequence[int]) -> str:
    return BETWEEN.join(
        cell + " " * (width - cell_len(cell))
        for cell, width in zip(cells, widths, strict=True)
    ).rstrip()


def cell_len(text: str) -> int:
    """Return the columns that a string takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        (2 if unicodedata.east_asian_width(character) in "WF" else 1)
        for character in text
        if not unicodedata.combining(character)
    )


def _under(cells: Sequence[str], *, width: int) -> list[str]:
    """Return cells in lines: several in one line if they fit, a long one in several."""
    lines: list[str] = []
    for cell in cells:
        joined = lines[-1] + BETWEEN + cell if lines else ""
        if joined and cell_len(joined) <= width:
            lines[-1] = joined
            continue
        lines += _wrapped(cell, width=width)
    return lines


def _joined(command: re.Match[str]) -> str:
    return command[0].replace(" ", _JOINER)


def _wrapped(cell: str, *, width: int) -> list[str]:
    """Return a cell in lines; a command in backticks is never broken.

    It stands on a line of its own if it is longer than a line.
    """
    lines = textwrap.wrap(
        _COMMAND.sub(_joined, cell),
        width,
        initial_indent=INDENT,
        subsequent_indent=INDENT + BETWEEN,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_JOINER, " ") for line in lines]
