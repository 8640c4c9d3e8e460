"""What is printed: tables for people, JSON for programs, colour on terminals."""

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from forewarn.texts import json_text, printable

STYLES = {
    "Noticed": "cyan",
    "Scheduled": "cyan",
    "Ready": "yellow",
    "Impacting": "bold yellow",
    "Started": "bold yellow",
    "Recovering": "blue",
    "Done": "green",
    "Removed": "green",
    "Cancelled": "dim",
    "Failed": "bold red",
    "down": "bold red",
    "deleted": "dim",
}
"""How a state looks on a terminal."""


def document(value: Any) -> None:
    """Print one JSON document."""
    print(json_text(value, indent=2))


def json_line(value: Any) -> None:
    """Print one JSON document on a line of its own, at once."""
    print(json_text(value), flush=True)


def line(text: str = "") -> None:
    """Print a line; states in it keep the terminal's own look."""
    print(printable(text), flush=True)


def table(empty: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table, or that there is nothing."""
    cells = [tuple(printable(cell) for cell in row) for row in rows]
    if not cells:
        line(empty)
    elif sys.stdout.isatty():
        _for_terminal(columns, cells)
    else:
        _for_pipe(columns, cells)


def _for_terminal(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        shown.add_column(column, overflow="fold")
    for row in rows:
        shown.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in row))
    # rich itself looks at NO_COLOR and TERM.
    Console(highlight=False).print(shown)


def _for_pipe(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a line for each row, however long, as other programs want it."""
    widths = [
        max(len(cell) for cell in column) for column in zip(columns, *rows, strict=True)
    ]
    for row in (columns, *rows):
        padded = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        print("  ".join(padded).rstrip())
