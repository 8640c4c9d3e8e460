r"""A parser for the simple TOML of most fleet files, three times as fast as `tomllib`.

In the simple form, each line is blank, a comment, a header `[[table]]`, or a complete
`key = value`. `tomllib` reads such lines character by character, which would be two
thirds of the time for a large file. Text in any other form is left to `tomllib`.
"""

import re
from collections.abc import Iterator
from typing import TypeAlias

from forewarn import toml

Entry: TypeAlias = dict[str, object]

PIECE_CHARACTERS = 1 << 18
"""Size of a chunk, in characters: the matches of a large file would take 100 MiB."""

_INSIDE = r"[^\"\\\x00-\x08\x0a-\x1f\x7f]*+"
_COMMENT = r"\#[^\x00-\x08\x0a-\x1f\x7f]*+"

_LINES = re.compile(
    rf"""
    [\ \t]*+
    (?:
        (?: \[\[ [\ \t]*+ ([A-Za-z0-9_-]++) [\ \t]*+ \]\]
          | ([A-Za-z0-9_-]++) [\ \t]*+ = [\ \t]*+ "({_INSIDE})"
        )?+
        [\ \t]*+ (?:{_COMMENT})?+ \n
      | ([A-Za-z0-9_-]++) [\ \t]*+ = ([^\n]++) \n
      | ([^\n]*+) \n
    )
    """,
    re.VERBOSE,
)
"""A line: a header, a key with a simple string, a key with another value, or a line in
another form."""

_TEXTS = re.compile(rf'[ \t]*\[[ \t]*"{_INSIDE}"(?:[ \t]*,[ \t]*"{_INSIDE}")*+[ \t]*\]')
_TEXT = re.compile(rf'"({_INSIDE})"')


def tables(text: str) -> dict[str, object] | None:
    """Return the tables of TOML in the simple form; None: it is in another form.

    The result is the same as that of `tomllib`. Entries can share value objects.
    """
    tables_by_name: dict[str, list[Entry]] = {}
    entry: Entry | None = None
    values: dict[str, object] = {}
    for header, text_key, inside, key, rest, other in _lines(text):
        if text_key:
            if entry is None or text_key in entry:
                return None
            entry[text_key] = inside
        elif key:
            if entry is None or key in entry:
                return None
            value = values.get(rest)
            if value is None:
                value = _value(rest)
                if value is None:
                    return None
                values[rest] = value
            entry[key] = value
        elif header:
            entry = {}
            tables_by_name.setdefault(header, []).append(entry)
        elif other:
            return None
    return {**tables_by_name}


def _lines(text: str) -> Iterator[tuple[str, ...]]:
    """Yield the groups of `_LINES` for each line, chunk by chunk."""
    whole = text.replace("\r\n", "\n") + "\n"
    start = 0
    while start < len(whole):
        end = whole.find("\n", start + PIECE_CHARACTERS) + 1 or len(whole)
        yield from _LINES.findall(whole, start, end)
        start = end


def _value(rest: str) -> object:
    """Return the value after `=`; None: it does not end on this line."""
    if _TEXTS.fullmatch(rest):
        return _TEXT.findall(rest)
    try:
        # TOML is read from left to right, so text that is a complete value alone has the
        # same value in the file.
        return toml.loads(f"value ={rest}")["value"]
    except (ValueError, RecursionError):
        return None
