"""Convert the Markdown of `docs/` to roff, with a few macros of man(7).

It supports only the Markdown of `docs/`: headings, paragraphs, lists, tables of settings,
code fences, code, emphasis and links.
"""

import re
from collections.abc import Iterator

_CELLS = re.compile(r"(?<!\\)\|")
_SPAN = re.compile(
    r"`([^`]+)`|\*\*([^*]+)\*\*|(?<!\*)\*([^*\s][^*]*)\*|\[([^\]]*)\]\(([^)]*)\)"
)
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)


def heading(name: str, section: int, *, version: str) -> str:
    """Return the first lines of a page."""
    # No date, since the build must not depend on the day. A line with one long word cannot
    # be stretched to the margin.
    title = f'.TH "{name.upper()}" "{section}" "" "forewarn {version}" "forewarn"'
    return f"{title}\n.ad l"


def plain(text: str) -> str:
    """Return text escaped for roff."""
    return text.replace("\\", "\\e")


def literal(text: str) -> str:
    """Return typed text escaped for roff, with hyphens that can be copied."""
    return plain(text).replace("-", "\\-")


def bold(text: str) -> str:
    """Return typed text in bold; a long choice of words can continue on another line."""
    choice = literal(text).replace("|", "|\\:")
    return f"\\fB{choice}\\fR"


def line(text: str) -> str:
    """Return a line of text that does not start a macro."""
    return f"\\&{text}" if text[:1] in {".", "'"} else text


def inline(text: str) -> str:
    """Return a line of Markdown as a line of roff."""
    parts: list[str] = []
    end = 0
    for found in _SPAN.finditer(text):
        parts.append(plain(text[end : found.start()]))
        code, strong, stressed, shown, _ = found.groups()
        if code is not None:
            parts.append(bold(code.replace("\\|", "|")))
        elif strong is not None:
            parts.append(f"\\fB{inline(strong)}\\fR")
        elif stressed is not None:
            parts.append(f"\\fI{inline(stressed)}\\fR")
        else:
            parts.append(inline(shown))
        end = found.end()
    parts.append(plain(text[end:]))
    return "".join(parts)


def paragraph(text: str) -> Iterator[str]:
    """Yield a paragraph of Markdown."""
    yield ".PP"
    yield line(inline(text))


def tagged(tag: str, text: str) -> Iterator[str]:
    """Yield a word with its meaning; `tag` is roff, `text` Markdown."""
    yield ".TP"
    yield line(tag)
    yield line(inline(text))


def example(lines: Iterator[str] | list[str]) -> Iterator[str]:
    """Yield preformatted lines."""
    yield ".PP"
    yield ".RS 4"
    yield ".nf"
    for row in lines:
        yield line(literal(row))
    yield ".fi"
    yield ".RE"


def markdown(text: str) -> Iterator[str]:
    """Yield a page of `docs/` below its title."""
    lines = _COMMENT.sub("", text).splitlines()
    while lines:
        first = lines.pop(0)
        if first.startswith("```"):
            end = lines.index("```")
            yield from example(lines[:end])
            del lines[: end + 1]
        elif found := re.match(r"(#+) +(.*)", first):
            yield from _heading(len(found[1]), found[2])
        elif first.startswith("|"):
            rows = [first]
            while lines and lines[0].startswith("|"):
                rows.append(lines.pop(0))
            yield from _table(rows)
        elif first.startswith("- "):
            yield ".IP \\(bu 2"
            yield line(inline(first[2:]))
        elif first.strip():
            yield from paragraph(first)


def _heading(depth: int, text: str) -> Iterator[str]:
    """Yield a section's heading; the page's title is in its first line."""
    shown = inline(_LINK.sub(r"\1", text).replace("`", "")).replace('"', "\\(dq")
    if depth == 2:  # noqa: PLR2004 - the first below the title
        yield f'.SH "{shown.upper()}"'
    elif depth > 2:  # noqa: PLR2004
        yield f'.SS "{shown}"'


def _table(rows: list[str]) -> Iterator[str]:
    """Yield each row as a word with its meaning; the default follows the word."""
    head, _, *body = (
        [cell.strip() for cell in _CELLS.split(row)[1:-1]] for row in rows
    )
    for cells in body:
        name, *more, meaning = cells
        beside = "".join(
            f" ({inline(cell)})" if word != "default" else f" (default: {inline(cell)})"
            for word, cell in zip(head[1:-1], more, strict=True)
        )
        yield from tagged(inline(name) + beside, meaning)
