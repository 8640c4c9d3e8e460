"""Protection against control characters, in input, in terminal output, and in what other
programs print.

A terminal obeys control characters, and some characters of the C1 range act as escape
sequences. Characters that change the text direction can disguise a line. This module
uses only the standard library, since the agent imports it.
"""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

_REFUSED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
    "\ud800-\udfff]"
)
"""Control characters except tab and line feed, line separators, direction marks and
surrogates. Joiners are allowed, since some scripts and emoji need them."""


def printable(text: str) -> str:
    """Return `text` on one line, with control characters escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


_TERMINAL = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*(?:[@-~]|$)"  # Colors and movements
    r"|\x1b[\]PX^_][^\x07\x1b\r\n]*(?:\x07|\x1b\\)?"  # Titles, links and other strings
    r"|\x1b[ -/]*[0-~]?"
)
"""Sequences that control a terminal, even without their end. A string without its end
stops at the end of its line: the next line can be the error."""

BINARY_SHARE = 4
"""A text of which more than this part, a quarter, cannot be read is binary: a text in
another encoding has fewer such characters."""


def _one_line(text: str) -> str:
    """Return a text without sequences for terminals, and with single spaces."""
    return " ".join(_TERMINAL.sub("", text).split())


def cleaned(text: str) -> str:
    """Return what another program said on one line, for a message.

    Sequences for terminals are removed, and characters that are not printable. Each run
    of bytes that are not text has one mark.
    """
    text = _one_line(text)
    if text.isprintable() and "\ufffd" not in text:
        return text
    printable = "".join(character for character in text if character.isprintable())
    return re.sub("\ufffd+", "\ufffd", printable)


def shortened(text: str, characters_max: int) -> str:
    """Return a text with at most `characters_max` characters; a mark replaces the rest."""
    return text if len(text) <= characters_max else f"{text[: characters_max - 1]}…"


def readable(text: str, *, last: int = 0) -> str:
    """Return what another program printed, cleaned; binary data is left out.

    `last` is the number of characters at the end that are wanted; 0: all.
    """
    text = _one_line(text)[-last:]
    lost = sum(
        1 for character in text if character == "\ufffd" or not character.isprintable()
    )
    return "(binary data)" if lost * BINARY_SHARE > len(text) else cleaned(text)


def json_text(value: Any, *, indent: int | None = None) -> str:
    """Return a value as JSON without characters that control a terminal.

    Characters that are not printable are written as `\\uXXXX`, which means the same.
    """
    separators = (",", ":") if indent is None else (",", ": ")
    text = json.dumps(value, indent=indent, ensure_ascii=False, separators=separators)
    if text.isprintable():
        return text
    # Line feeds come only from the indentation: in texts they are escaped.
    bad = (c for c in set(text) if not c.isprintable() and c != "\n")
    return text.translate({ord(c): _escape(c) for c in bad})


def count(number: int, what: str) -> str:
    """Return a number with a noun whose plural ends in s: `6,000 VMs`."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def _escape(character: str) -> str:
    # json.dumps does not escape DEL.
    return "\\u007f" if character == "\x7f" else json.dumps(character)[1:-1]


def fault_of(text: str) -> str:
    """Return the problem of a text that people will read, or an empty text."""
    match = _REFUSED.search(text)
    if match is None:
        return ""
    name = unicodedata.name(match[0], "a control character")
    return (
        f"character {match.start() + 1} is U+{ord(match[0]):04X} ({name}); "
        "control characters are not allowed"
    )
