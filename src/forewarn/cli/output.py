"""Output: tables for people, JSON for programs, color on terminals."""

import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from forewarn.cli import tables
from forewarn.cli.command_table import Call, Exit
from forewarn.texts import json_text, printable


def document(value: Any) -> None:
    """Print one JSON document."""
    print(json_text(value, indent=2))


def json_line(value: Any) -> None:
    """Print one JSON document on a line, at once."""
    print(json_text(value), flush=True)


def line(text: str = "", *, exact: bool = False) -> None:
    """Print a line without styles; its instants have fractions only if it is `exact`."""
    text = printable(text)
    print(text if exact else tables.second(text), flush=True)


def sentence(text: str) -> None:
    """Print a sentence: on a terminal, folded between words; else on one line."""
    if sys.stdout.isatty():
        text = "\n".join(
            textwrap.wrap(
                tables.second(printable(text)),
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
        for row in lines:
            line(row)
    return Exit.DONE


def problem(text: str, *, hint: str = "") -> None:
    """Print an error and its hint on standard error."""
    for row in text.splitlines():
        print(f"forewarn: {printable(row)}", file=sys.stderr)
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
        from forewarn.cli import drawing  # noqa: PLC0415 - slow, only for terminals

        drawing.show(columns, cells, essential=essential)
    else:
        print("\n".join(tables.aligned(columns, cells)))
    if summary:
        line(summary)
