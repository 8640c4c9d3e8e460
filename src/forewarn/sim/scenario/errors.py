"""What can be wrong with a scenario file, and on which line.

A key is looked for where its author wrote it: in a step's own lines, in a table of
a step, in an inline table, or in a table of the file.
"""

import re
from collections.abc import Iterable

from forewarn.fleet.lines import Lines
from forewarn.problems import PROBLEMS_MAX, Problem
from forewarn.protocol.errors import ForewarnError

_HEADER = re.compile(r"[ \t]*\[")


class ScenarioError(ForewarnError):
    """The scenario file cannot be used; nothing was run."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        """Tell of the problems in the order of their lines."""
        found = sorted(problems, key=lambda each: each.line)
        self.problems = tuple(found[:PROBLEMS_MAX])
        lines = [str(problem) for problem in self.problems]
        if len(found) > PROBLEMS_MAX:
            lines.append(f"and more: these are the first {PROBLEMS_MAX}")
        super().__init__(
            "\n".join(lines),
            hint="mend the scenario file; nothing was run",
        )


class Spots:
    """Where the keys of one file are."""

    def __init__(self, text: str) -> None:
        """Look into `text`, which is valid TOML."""
        self._lines = Lines(text)
        self._text = text.splitlines()

    def root(self, name: str) -> int:
        """Return the line of a key or table of the file."""
        return self._lines.root(name)

    def inner(self, table: str, key: str) -> int:
        """Return the line of a key of a table of the file."""
        return self._below(self._lines.root(table), key)

    def entry(self, table: str, index: int, key: str = "", inner: str = "") -> int:
        """Return the line of an entry of `[[table]]`, of its key, or of a key in that."""
        line = self._lines.key(table, index, key)
        return self._below(line, inner) if inner else line

    def _below(self, line: int, key: str) -> int:
        """Return the line of `key` under the header in `line`; that one's without."""
        if not _HEADER.match(self._text[line - 1]):
            return line
        wanted = re.compile(rf"[ \t]*[\"']?{re.escape(key)}[\"']?[ \t]*[=.]")
        for number, text in enumerate(self._text[line:], start=line + 1):
            if _HEADER.match(text):
                break
            if wanted.match(text):
                return number
        return line
