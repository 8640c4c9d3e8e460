"""Output: tables for people, JSON for programs, color on terminals."""

import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from forewarn.cli import tables
from forewarn.cli.command_table import Call, Exit
from forewarn.texts import json_text, printable


def document(value: Any) -> None:
    """Print one JSON document."""
    print(json_text(value, indent=2))


def json_line(value: Any) -> None:
    """Print one JSON document on a line, at once."""
    print(json_text(value), flush=True)


def line(text: str = "") -> None:
    """Print a line without styles."""
    print(printable(text), flush=True)


def sentence(text: str) -> None:
    """Print a sentence: on a terminal, folded between words; else on one line."""
    if sys.stdout.isatty():
        text = "\n".join(
            textwrap.wrap(
                printable(text),
                shutil.get_terminal_size().columns,
                subsequent_indent=tables.INDENT,
                break_long_words=False,
                break_on_hyphens=False,
            )
        )
        print(text, flush=True)
    else:
        line(text)


def shown(call: Call, value: Any, show: Callable[[Any], object]) -> Exit:
    """Print a response: as JSON with --json, else with `show`."""
    if call.flag("json"):
        document(value)
    else:
        show(value)
    return Exit.DONE


def said(call: Call, value: Any, *lines: str) -> Exit:
    """Print a response: as JSON with --json, else as lines."""
    if call.flag("json"):
        document(value)
    else:
        for each in lines:
            line(each)
    return Exit.DONE


def problem(text: str, *, hint: str = "") -> None:
    """Print an error and its hint on standard error."""
    for each in text.splitlines():
        print(f"forewarn: {printable(each)}", file=sys.stderr)
    if hint:
        print(f"  hint: {printable(hint)}", file=sys.stderr)


def listed(
    call: Call,
    value: Any,
    empty: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    summary: str = "",
    *,
    essential: int = 1,
) -> Exit:
    """Print a list: as JSON with --json, else as a table."""
    return shown(
        call,
        value,
        lambda _: table(empty, columns, rows, summary, essential=essential),
    )


def table(
    empty: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    summary: str = "",
    *,
    essential: int = 1,
) -> None:
    """Print a table with a summary below, or the text for an empty one.

    On a terminal, the first `essential` columns are never left out.
    """
    cells = [tuple(printable(cell) for cell in row) for row in rows]
    if not cells:
        line(empty)
        return
    if sys.stdout.isatty():
        # rich reads NO_COLOR and TERM.
        console = Console(highlight=False)
        shown = drawn(columns, cells, width=console.width, essential=essential)
        console.print(shown, soft_wrap=True)
    else:
        print("\n".join(tables.aligned(columns, cells)))
    if summary:
        line(summary)


def drawn(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    width: int,
    essential: int = 1,
) -> Text:
    """Return a table for a terminal of `width` columns."""
    folded = tables.folded(columns, rows, width=width, essential=essential)
    shown = styled(folded.head, folded.blocks, rows)
    if folded.left_out:
        titles = ", ".join(folded.left_out)
        note = f"(a wider terminal or a pipe shows all of {titles})"
        shown.append("\n" + "\n".join(textwrap.wrap(note, width)), "dim")
    return shown


def styled(
    head: str, blocks: Sequence[Sequence[str]], rows: Sequence[Sequence[str]]
) -> Text:
    """Return the lines of a table with styles; `rows` are their cells."""
    shown = Text(no_wrap=True, overflow="ignore").append(head, "bold")
    for (first, *under), cells in zip(blocks, rows, strict=True):
        text = Text(first)
        for cell in cells:
            if style := tables.STYLES.get(cell):
                text.highlight_words([cell], style)
        shown.append("\n").append_text(text)
        for each in under:
            shown.append(f"\n{each}", "dim")
    return shown
