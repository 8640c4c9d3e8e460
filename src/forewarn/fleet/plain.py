r"""TOML as most fleet files write it, read three times as fast as by `tomllib`.

In the plain form each line is blank, a comment, a header `[[table]]`, or a whole
`key = value`. Two thirds of the time that a large file takes would else go into
reading such lines character by character. What is in another form, and what is no
TOML at all, is left to `tomllib`: the answer is its, or none.
"""

import re
from collections.abc import Iterator
from typing import TypeAlias

from forewarn import toml

Entry: TypeAlias = dict[str, object]

PIECE_CHARACTERS = 1 << 18
"""Read at once: what was found in all lines of a large file would be 100 MiB."""

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
"""A header's table; or a key and its text; or a key and any other value; or what is
in none of these forms. Every line is one of them."""

_TEXTS = re.compile(rf'[ \t]*\[[ \t]*"{_INSIDE}"(?:[ \t]*,[ \t]*"{_INSIDE}")*+[ \t]*\]')
_TEXT = re.compile(rf'"({_INSIDE})"')


def tables(text: str) -> dict[str, object] | None:
    """Return the tables of a text in the plain form; None if it is in another.

    They are those that `tomllib` finds; a value may be shared by several entries.
    """
    found: dict[str, list[Entry]] = {}
    entry: Entry | None = None
    known: dict[str, object] = {}
    for header, text_key, inside, key, rest, other in _lines(text):
        if text_key:
            if entry is None or text_key in entry:
                return None
            entry[text_key] = inside
        elif key:
            if entry is None or key in entry:
                return None
            value = known.get(rest)
            if value is None:
                value = _value(rest)
                if value is None:
                    return None
                known[rest] = value
            entry[key] = value
        elif header:
            entry = {}
            found.setdefault(header, []).append(entry)
        elif other:
            return None
    return {**found}


def _lines(text: str) -> Iterator[tuple[str, ...]]:
    """Yield the groups of `_LINES` for each line, a piece of the text at a time."""
    whole = text.replace("\r\n", "\n") + "\n"
    start = 0
    while start < len(whole):
        end = whole.find("\n", start + PIECE_CHARACTERS) + 1 or len(whole)
        yield from _LINES.findall(whole, start, end)
        start = end


def _value(rest: str) -> object:
    """Return the value of what stands behind `=`; None if it does not end there."""
    if _TEXTS.fullmatch(rest):
        return _TEXT.findall(rest)
    try:
        # TOML is read from left to right: what is a whole value by itself is the
        # same one where it stands.
        return toml.loads(f"value ={rest}")["value"]
    except (ValueError, RecursionError):
        return None
