"""Tables with styles, for terminals."""

import textwrap
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from forewarn.cli import tables


def show(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, essential: int
) -> None:
    """Print a table for the terminal of this process."""
    # rich reads NO_COLOR and TERM.
    console = Console(highlight=False)
    shown = drawn(columns, rows, width=console.width, essential=essential)
    console.print(shown, soft_wrap=True)


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
        for line in under:
            shown.append(f"\n{line}", "dim")
    return shown
