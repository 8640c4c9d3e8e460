"""Parse the subset of YAML that kubectl writes into mappings, lists and texts. Pure.

It supports block mappings, block lists, and quoted and plain values on one line. Any other
syntax is an error with the number of the line. This module does not know kubeconfigs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

YAML_CHARACTERS_MAX = 1024 * 1024
"""Maximum length of a file, in characters: a large kubeconfig has 20,000."""

_KEY = re.compile(r'("(?:[^"\\]|\\.)*"|[A-Za-z0-9_][\w./-]*)[ ]*:(?:[ ]+(.*))?$')
_QUOTED = re.compile(r"'((?:[^']|'')*)'")
_COMMENT = re.compile(r"[ ]+#.*$")
_EMPTY: Mapping[str, Any] = {
    "null": None,
    "~": None,
    "true": True,
    "false": False,
    "{}": {},
    "[]": [],
}
_SPECIAL = frozenset("&*!|>%@`{}[],?#'\"")
"""Characters that cannot start a plain value: anchors, tags, text blocks and so on."""


class YamlError(ValueError):
    """The text is not YAML, or uses unsupported syntax."""


@dataclass
class _Line:
    number: int
    indent: int
    text: str


def read(text: str) -> Any:
    """Parse a string; None: it is empty. Raises YamlError with the line."""
    if len(text) > YAML_CHARACTERS_MAX:
        raise YamlError(f"it has more than {YAML_CHARACTERS_MAX} characters")
    if not (lines := list(_lines(text))):
        return None
    reader = _Reader(lines)
    value = reader.block(lines[0].indent)
    if reader.line is not None:
        raise _fault(reader.line, "has a different indentation than the lines above")
    return value


def _lines(text: str) -> list[_Line]:
    lines: list[_Line] = []
    for number, raw in enumerate(text.splitlines(), start=1):
        bare = raw.strip(" ")
        if not bare or bare.startswith("#") or (bare == "---" and not lines):
            continue
        line = _Line(number, len(raw) - len(raw.lstrip(" ")), bare)
        if bare.startswith("\t"):
            raise _fault(line, "is indented with a tab")
        if bare in {"---", "..."}:
            raise _fault(line, "starts another document")
        lines.append(line)
    return lines


class _Reader:
    """Parses the lines in one pass."""

    def __init__(self, lines: list[_Line]) -> None:
        self._lines = lines
        self._at = 0

    @property
    def line(self) -> _Line | None:
        """Return the next line; None: there is none."""
        return self._lines[self._at] if self._at < len(self._lines) else None

    def block(self, indent: int) -> Any:
        """Parse the list or mapping that starts here."""
        line = self.line
        assert line is not None, "a block has a line"
        return self._list(indent) if _is_item(line) else self._mapping(indent)

    def _list(self, indent: int) -> list[Any]:
        items: list[Any] = []
        while (line := self.line) and line.indent == indent and _is_item(line):
            inner = line.text[1:].lstrip(" ")
            if inner and (_KEY.match(inner) or _is_item(_Line(0, 0, inner))):
                # The text after the dash starts a nested block.
                deeper = line.indent + len(line.text) - len(inner)
                self._lines[self._at] = _Line(line.number, deeper, inner)
                items.append(self.block(deeper))
                continue
            self._at += 1
            items.append(_scalar(line, inner) if inner else self._nested(indent))
        return items

    def _mapping(self, indent: int) -> dict[str, Any]:
        members_read: dict[str, Any] = {}
        while (line := self.line) and line.indent == indent and not _is_item(line):
            if (match := _KEY.match(line.text)) is None:
                raise _fault(line, "is not a key with a value")
            key = json.loads(match[1]) if match[1].startswith('"') else match[1]
            if key in members_read:
                raise _fault(line, f"repeats {key}")
            self._at += 1
            value = match[2] or ""
            if value and not value.startswith("#"):
                members_read[key] = _scalar(line, value)
            else:
                members_read[key] = self._nested(indent, may_be_list=True)
        return members_read

    def _nested(self, indent: int, *, may_be_list: bool = False) -> Any:
        """Parse the block below a key or a dash; None: there is none."""
        line = self.line
        if line is not None and line.indent > indent:
            return self.block(line.indent)
        # A list may follow its key without indentation.
        if may_be_list and line and line.indent == indent and _is_item(line):
            return self._list(indent)
        return None


def _is_item(line: _Line) -> bool:
    return line.text == "-" or line.text.startswith("- ")


def _scalar(line: _Line, text: str) -> Any:
    if text.startswith('"'):
        return _double_quoted(line, text)
    if text.startswith("'"):
        match = _QUOTED.match(text)
        if match is None or not _is_over(text[match.end() :]):
            raise _fault(line, "has a quoted text without an end")
        return match[1].replace("''", "'")
    plain = _COMMENT.sub("", text)
    if plain in _EMPTY:
        return _EMPTY[plain]
    if plain[0] in _SPECIAL:
        raise _fault(line, f"has an unsupported {plain[0]} at the start of a value")
    if ": " in plain or plain.endswith(":"):
        raise _fault(line, "has two colons: quote the value")
    return plain


def _double_quoted(line: _Line, text: str) -> str:
    try:
        value, end = json.JSONDecoder().raw_decode(text)
    except ValueError:
        raise _fault(line, "has a quoted text that is not valid in JSON") from None
    if not _is_over(text[end:]):
        raise _fault(line, "has characters after its quoted text")
    return value


def _is_over(rest: str) -> bool:
    """Return whether only a comment follows a quoted text."""
    return not rest.strip() or _COMMENT.fullmatch(rest) is not None


def _fault(line: _Line, message: str) -> YamlError:
    # Do not quote the line, which may contain a token.
    return YamlError(f"line {line.number} {message}")
