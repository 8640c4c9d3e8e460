r"""Find the lines of tables and keys in a TOML text.

`tomllib` returns values without line numbers. Messages and the origins of settings need
them, so this module finds them afterwards. The text must be valid TOML: this module
checks nothing. One fast pass finds the headers. The keys below a header are searched
only on request.

The full name of a key is its table's name and its own, `timing.speed`. The tables of an
array are counted from 1, in whichever syntax they are written: `webhook.2.url`.
"""

from __future__ import annotations

import re

from forewarn import toml

_BASIC = r'"(?:[^"\\\n]+|\\.)*"'
_LITERAL = r"'[^'\n]*'"
_STRING = (
    r'"""(?:[^"\\]+|\\[\s\S]|"{1,2}(?!"))*"{3,5}'
    r"|'''(?:[^']+|'{1,2}(?!'))*'{3,5}"
    rf"|{_BASIC}|{_LITERAL}"
)
_PART = rf"(?:[A-Za-z0-9_-]+|{_BASIC}|{_LITERAL})"

_MARK = re.compile(
    rf"^[ \t]*\[(\[)?[ \t]*({_PART}(?:[ \t]*\.[ \t]*{_PART})*)[ \t]*\](?(1)\])"
    rf"|{_STRING}|#[^\n]*|([\[{{])|[\]}}]",
    re.MULTILINE,
)
"""A header, or a string, comment or bracket that can look like a header or enclose one."""

_PARTS = re.compile(_PART)
_TOKEN = re.compile(rf"#[^\n]*|{_STRING}|[\[\]{{}},.=\n]|[^\s\[\]{{}},.=\"'#]+")


class Lines:
    """The lines of one TOML text."""

    def __init__(self, text: str) -> None:
        """Find the headers of `text`, which must be valid TOML."""
        self._text = text
        self._tables: dict[str, int] = {"": 0}
        """The index in `_starts` of each table with a header."""
        self._mentions: dict[str, int] = {}
        """The first position of each table and of each parent table."""
        self._starts = [0]
        self._keys: dict[str, dict[str, int]] = {}
        counts: dict[str, int] = {}
        depth = 0
        for mark in _MARK.finditer(text):
            if mark[2] and not depth:
                self._note(mark, counts)
            elif mark[3]:
                depth += 1
            elif mark[0] in {"]", "}"}:
                depth -= 1
        self._starts.append(len(text))

    def _note(self, mark: re.Match[str], counts: dict[str, int]) -> None:
        """Record a header."""
        name = ""
        parts = _PARTS.findall(mark[2])
        for place, part in enumerate(parts, start=1):
            name = f"{name}.{_unquoted(part)}" if name else _unquoted(part)
            self._mentions.setdefault(name, mark.start())
            if mark[1] and place == len(parts):
                counts[name] = counts.get(name, 0) + 1
            if name in counts:
                name = f"{name}.{counts[name]}"
        self._mentions.setdefault(name, mark.start())
        self._tables[name] = len(self._starts)
        self._starts.append(mark.start())

    def line(self, name: str) -> int:
        """Return the line of a table or key, or of its nearest parent, or 0."""
        while name:
            table = name
            while True:
                if table in self._tables and name in (keys := self._below(table)):
                    return keys[name]
                if not table:
                    break
                table = table.rpartition(".")[0]
            if name in self._mentions:
                return self._text.count("\n", 0, self._mentions[name]) + 1
            name = name.rpartition(".")[0]
        return 0

    def _below(self, table: str) -> dict[str, int]:
        """Return the lines of the keys below a header, including nested keys."""
        if table not in self._keys:
            place = self._tables[table]
            start, end = self._starts[place], self._starts[place + 1]
            line = self._text.count("\n", 0, start) + 1
            if table:
                start = self._text.find("\n", start, end) + 1 or end
                line += 1
            self._keys[table] = _keys(self._text, start, end, line, table)
        return self._keys[table]


def _keys(text: str, start: int, end: int, line: int, table: str) -> dict[str, int]:
    """Return the lines of all keys in a part of the text without headers."""
    lines_by_key: dict[str, int] = {}
    around: list[tuple[str, int]] = []
    """The open tables and lists, with the items of a list so far, or -1 for a table."""
    inside, items, name = table, -1, ""
    is_key = True
    """Whether the next token belongs to a key or starts a list item."""
    for token in _TOKEN.finditer(text, start, end):
        piece = token[0]
        if piece in "\n,":
            is_key = is_key or piece == "," or not around
            name = inside
        elif piece[0] == "#" or piece == ".":
            pass
        elif piece in "]}":
            inside, items = around.pop()
            is_key = False
        elif piece == "=":
            is_key = False
        else:
            if is_key and items >= 0:
                items += 1
                name, is_key = f"{inside}.{items}", False
                if piece in "[{":
                    lines_by_key[name] = line
            elif is_key:
                name = name or inside
                name = f"{name}.{_unquoted(piece)}" if name else _unquoted(piece)
                lines_by_key.setdefault(name, line)
            if piece in "[{":
                around.append((inside, items))
                inside, items, is_key = name, 0 if piece == "[" else -1, True
        line += piece.count("\n")
    return lines_by_key


def _unquoted(key: str) -> str:
    return toml.loads(f"key = {key}")["key"] if key[0] in "\"'" else key
