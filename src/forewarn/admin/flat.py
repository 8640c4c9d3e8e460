"""A parser for a long flat JSON object that arrives in pieces.

A fleet file is one string of up to 64 MiB in a small object. Python's parser reads a
document in one call, which takes seconds for a hostile document and blocks the event
loop. `FlatObject` parses each piece as it arrives, in about a millisecond, and refuses
lists and objects at their first byte.
"""

import codecs
import json
import re
from typing import Any

PLAIN_CHARACTERS_MAX = 32
"""Maximum characters of a number, true, false or null."""

NAME_CHARACTERS_MAX = 64
"""Maximum characters of a member's name; the longest known name has 11."""

MEMBERS_MAX = 20
"""Maximum members of one object; a fleet request has four."""

_BLANK = re.compile(r"[ \t\r\n]*")
_PLAIN = re.compile(r"[-+.0-9A-Za-z]+")
_UNITS = re.compile(
    r'(?:[^"\\]++'
    r"|\\u[dD][89abAB][0-9A-Fa-f]{2}\\u[0-9A-Fa-f]{4}"
    r"|\\u(?![dD][89abAB])[0-9A-Fa-f]{4}"
    r"|\\[^u])*+",
    re.DOTALL,
)
"""Characters and escapes of a string that can be decoded without the following text."""

_UNIT_CHARACTERS_MAX = 12
"""Maximum characters of one unit: an escape of two halves."""


class FlatError(ValueError):
    """The document is not a flat JSON object; the message has the position."""


class FlatObject:
    """The parser of one object. Feed it all bytes, then take the members."""

    def __init__(self) -> None:
        """Begin before the first byte."""
        self._decoder = codecs.getincrementaldecoder("utf-8")("strict")
        self._rest = ""
        self._seen = 0
        """Number of characters that were taken from `_rest`."""
        self._expects = self._opening
        self._members: dict[str, Any] = {}
        self._name: str | None = None
        self._pieces: list[str] = []

    def feed(self, data: bytes, *, is_last: bool = False) -> None:
        """Parse another piece; raises FlatError."""
        try:
            self._rest += self._decoder.decode(data, final=is_last)
        except UnicodeDecodeError:
            raise FlatError("the body is not UTF-8") from None
        self._read(is_last=is_last)

    def finish(self) -> dict[str, Any]:
        """Return the members; raises FlatError if the object is incomplete."""
        self.feed(b"", is_last=True)
        if self._expects != self._end or self._rest:
            raise self._error("the JSON object is incomplete")
        return self._members

    def _read(self, *, is_last: bool) -> None:
        while self._rest:
            if self._expects != self._string:
                self._take(_BLANK.match(self._rest))
                if not self._rest:
                    return
            if not self._expects(is_last):
                return

    def _take(self, matched: "re.Match[str] | None") -> str:
        text = matched[0] if matched else ""
        self._skip(len(text))
        return text

    def _skip(self, count: int) -> None:
        self._rest = self._rest[count:]
        self._seen += count

    def _mark(self, *wanted: str) -> str:
        """Take one of these characters; raises FlatError for another character."""
        mark = self._rest[0]
        if mark not in wanted:
            names = " or ".join(repr(character) for character in wanted)
            raise self._error(f"expected {names}, not {mark!r}")
        self._skip(1)
        return mark

    def _error(self, text: str) -> FlatError:
        return FlatError(f"{text} (character {self._seen})")

    # The states of the parser; each returns whether it made progress

    def _opening(self, _is_last: bool) -> bool:  # noqa: FBT001
        self._mark("{")
        self._expects = self._first_name
        return True

    def _first_name(self, is_last: bool) -> bool:  # noqa: FBT001
        if self._rest[0] == "}":
            self._skip(1)
            self._expects = self._end
            return True
        return self._next_name(is_last)

    def _next_name(self, _is_last: bool) -> bool:  # noqa: FBT001
        self._mark('"')
        if len(self._members) >= MEMBERS_MAX:
            raise self._error(f"the object has more than {MEMBERS_MAX} members")
        self._name = None
        self._expects = self._string
        return True

    def _string(self, is_last: bool) -> bool:  # noqa: FBT001
        matched = _UNITS.match(self._rest)
        assert matched is not None
        end = matched.end()
        if end:
            try:
                piece: str = json.loads(f'"{self._rest[:end]}"')
            except json.JSONDecodeError as error:
                raise self._error(error.msg) from None
            self._skip(end)
            self._pieces.append(piece)
        if self._name is None and sum(map(len, self._pieces)) > NAME_CHARACTERS_MAX:
            raise self._error("the name of a member is too long")
        if not self._rest:
            return False
        if self._rest[0] != '"':
            if is_last or len(self._rest) >= _UNIT_CHARACTERS_MAX:
                raise self._error("an invalid escape")
            return False
        self._skip(1)
        text, self._pieces = "".join(self._pieces), []
        if self._name is None:
            self._name = text
            self._expects = self._colon
        else:
            self._keep(text)
        return True

    def _colon(self, _is_last: bool) -> bool:  # noqa: FBT001
        self._mark(":")
        self._expects = self._value
        return True

    def _value(self, is_last: bool) -> bool:  # noqa: FBT001
        if self._rest[0] == '"':
            self._skip(1)
            self._expects = self._string
            return True
        matched = _PLAIN.match(self._rest)
        if matched is None:
            raise self._error(
                "the value of a member must be a string, a number, true or false"
            )
        if matched.end() > PLAIN_CHARACTERS_MAX:
            raise self._error("a number is too long")
        if matched.end() == len(self._rest) and not is_last:
            return False
        try:
            value = json.loads(matched[0])
        except ValueError:
            raise self._error(f"{matched[0]!r} is not JSON") from None
        self._take(matched)
        self._keep(value)
        return True

    def _keep(self, value: object) -> None:
        assert self._name is not None
        self._members[self._name] = value
        self._expects = self._separator

    def _separator(self, _is_last: bool) -> bool:  # noqa: FBT001
        is_over = self._mark(",", "}") == "}"
        self._expects = self._end if is_over else self._next_name
        return True

    def _end(self, _is_last: bool) -> bool:  # noqa: FBT001
        raise self._error("there is text after the JSON object")
