"""What is printed: tables for people, JSON for programs, colour on terminals."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

COLUMNS_UNBOUNDED = 10_000
"""A width for what is no terminal: a line of a table must stay a line."""

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
    print(json.dumps(value, indent=2, ensure_ascii=False))


def json_line(value: Any) -> None:
    """Print one JSON document on a line of its own, at once."""
    print(json.dumps(value, separators=(",", ":"), ensure_ascii=False), flush=True)


def line(text: str = "") -> None:
    """Print a line; states in it keep the terminal's own look."""
    print(plain(text), flush=True)


def plain(text: str) -> str:
    """Return a text without what a terminal would obey."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table, or its title and that there is nothing."""
    # rich itself looks at NO_COLOR and TERM.
    is_terminal = sys.stdout.isatty()
    console = Console(
        highlight=False,
        soft_wrap=not is_terminal,
        width=None if is_terminal else COLUMNS_UNBOUNDED,
    )
    shown = Table(box=box.SIMPLE_HEAD if is_terminal else None, pad_edge=False)
    for column in columns:
        shown.add_column(column, overflow="fold")
    count = 0
    for row in rows:
        count += 1
        shown.add_row(
            *(Text(plain(cell), style=STYLES.get(cell, "")) for cell in row)
        )
    if count:
        console.print(shown)
    else:
        line(title)
