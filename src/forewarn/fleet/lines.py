r"""Where things are in a TOML text: the line of each table entry and of each key.

`tomllib` gives values without lines, so this finds the lines afterwards, for
the messages of problems. The text must have been accepted by `tomllib`: nothing
is checked here. One quick pass finds the entries; the keys of an entry are
looked for only when somebody asks.
"""

import re
import tomllib
from collections.abc import Iterator
from typing import NamedTuple

_BASIC = r'"(?:[^"\\\n]|\\.)*+"'
_LITERAL = r"'[^'\n]*+'"
_LONG_BASIC = r'"""(?:[^"\\]|\\[\s\S]|"{1,2}(?!"))*+"{3,5}'
_LONG_LITERAL = r"'''(?:[^']|'{1,2}(?!'))*+'{3,5}"
_STRING = rf"(?:{_LONG_BASIC}|{_LONG_LITERAL}|{_BASIC}|{_LITERAL})"
_SHORT_STRING = rf"""(?:{_BASIC}(?!")|{_LITERAL}(?!'))"""
_PART = rf"(?:[A-Za-z0-9_-]++|{_BASIC}|{_LITERAL})"
_PATH = rf"{_PART}(?:[ \t]*\.[ \t]*{_PART})*"
_SCALAR = r"[^\s\"'\[{#][^\n#]*"
_FLAT = rf"[\[{{](?:[^\n\"'#\[\]{{}}]|{_SHORT_STRING})*+[\]}}]"
_REST_OF_LINE = r"[ \t]*(?:\#[^\n]*)?\n"

_BLANK = re.compile(rf"(?:{_REST_OF_LINE})++")
_PLAIN = re.compile(
    rf"(?:[ \t]*(?:{_PATH}[ \t]*=[ \t]*(?:{_SHORT_STRING}|{_SCALAR}|{_FLAT}))?"
    rf"{_REST_OF_LINE})*+"
)
"""As many lines as there are with a whole key and value, or with nothing."""

_HEADER = re.compile(rf"[ \t]*\[(\[)?[ \t]*({_PATH})[ \t]*\]\]?{_REST_OF_LINE}")
_KEY = re.compile(rf"[ \t]*({_PATH})[ \t]*=[ \t]*")
_PARTS = re.compile(_PART)
_TOKEN = re.compile(rf"\#[^\n]*|{_STRING}|[\[\]{{}},.=\n]|[^\s\[\]{{}},.=\"'#]+")


class _Statement(NamedTuple):
    """A header, or a key with its value."""

    start: int
    end: int
    path: tuple[str, ...]
    is_header: bool
    is_entry: bool
    """Whether it is a header of the form `[[table]]`."""
    value: int
    """Where the value begins; of a header, its end."""


class Lines:
    """The lines of one TOML text."""

    def __init__(self, text: str) -> None:
        """Find the entries of `text`, which must be valid TOML."""
        self._text = text.replace("\r\n", "\n") + "\n"
        self._roots: dict[str, _Statement] = {}
        self._entries: dict[str, list[int]] = {}
        self._parts: dict[tuple[str, int], list[_Statement]] = {}
        position = 0
        in_root = True
        while True:
            if not in_root:
                plain = _PLAIN.match(self._text, position)
                position = plain.end() if plain else position
            statement = self._next(position)
            if statement is None:
                break
            if in_root or statement.is_header:
                self._note(statement)
            in_root = in_root and not statement.is_header
            position = statement.end

    def _note(self, statement: _Statement) -> None:
        """Remember a statement of the top level, or a header."""
        root = statement.path[0]
        if statement.is_entry and len(statement.path) == 1:
            self._entries.setdefault(root, []).append(statement.start)
        elif entries := self._entries.get(root):
            self._parts.setdefault((root, len(entries) - 1), []).append(statement)
        self._roots.setdefault(root, statement)

    def root(self, name: str) -> int:
        """Return the line on which the top-level `name` is first mentioned."""
        return self._line(self._roots[name].start)

    def entry(self, table: str, index: int) -> int:
        """Return the line on which the entry begins, counted from 0 in `table`."""
        return self.key(table, index, "")

    def key(self, table: str, index: int, key: str) -> int:
        """Return the line of a key of an entry; the entry's if it has none such."""
        entries = self._entries.get(table)
        if entries is None:
            statement = self._roots[table]
            return self._line(self._inline(statement, index, key))
        start = entries[index]
        for statement in self._body(start):
            if statement.path[0] == key:
                return self._line(statement.start)
        for statement in self._parts.get((table, index), []):
            if statement.path[1] == key:
                return self._line(statement.start)
        return self._line(start)

    def _line(self, position: int) -> int:
        return self._text.count("\n", 0, position) + 1

    def _body(self, start: int) -> Iterator[_Statement]:
        """Yield the keys that follow the header at `start`."""
        statement = self._next(start)
        while (
            statement
            and (statement := self._next(statement.end))
            and not statement.is_header
        ):
            yield statement

    def _next(self, position: int) -> _Statement | None:
        """Return the first statement from `position` on, which begins a line."""
        text = self._text
        blank = _BLANK.match(text, position)
        start = blank.end() if blank else position
        if header := _HEADER.match(text, start):
            return _Statement(
                start=start,
                end=header.end(),
                path=_path(header[2]),
                is_header=True,
                is_entry=header[1] is not None,
                value=header.end(),
            )
        key = _KEY.match(text, start)
        if key is None:
            return None
        return _Statement(
            start=start,
            end=self._after(key.end()),
            path=_path(key[1]),
            is_header=False,
            is_entry=False,
            value=key.end(),
        )

    def _after(self, position: int) -> int:
        """Return where the line after the value at `position` begins."""
        depth = 0
        tokens = _TOKEN.finditer(self._text, position)
        token = next(tokens)
        while depth or token[0] != "\n":
            depth += token[0] in {"[", "{"}
            depth -= token[0] in {"]", "}"}
            token = next(tokens)
        return token.end()

    def _inline(self, statement: _Statement, index: int, key: str) -> int:
        """Return where a key of an entry is in `table = [{ key = … }, …]`."""
        found = statement.start
        depth, element = 0, -1
        fresh = False
        for token in _TOKEN.finditer(self._text, statement.value, statement.end):
            text = token[0]
            if text == "\n" or text.startswith("#"):
                continue
            if text in {"]", "}"}:
                depth -= 1
                continue
            if fresh and depth == 1:
                element += 1
                found = token.start() if element == index else found
            elif fresh and depth == 2 and element == index and _unquoted(text) == key:  # noqa: PLR2004
                return token.start()
            fresh = text in {"[", "{", ","}
            depth += text in {"[", "{"}
        return found


def _path(text: str) -> tuple[str, ...]:
    return tuple(_unquoted(part) for part in _PARTS.findall(text))


def _unquoted(key: str) -> str:
    return tomllib.loads(f"key = {key}")["key"] if key[0] in "\"'" else key
