"""Transcripts: what was ordered, and what followed, as a text that is a test.

A transcript is a sequence of blocks: lines of commands, a line `----`, and the
output that they give, up to a blank line. Lines that begin with `#` between the
blocks are comments. Replaying one returns its text with what the commands give
now; a test compares the two, and `pytest --rewrite` keeps the new one.

This module knows the form only; `commands` knows what the commands mean.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from forewarn.protocol.errors import ForewarnError

SEPARATOR = "----"

_CLAUSES = re.compile(r"^# clauses: *(.*)$", re.MULTILINE)


class TranscriptError(ForewarnError):
    """The transcript itself is invalid; its author must correct it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Commands, and where they are."""

    line: int
    """The line of the first command, counted from 1."""
    commands: tuple[str, ...]


def clauses(text: str) -> tuple[str, ...]:
    """Return the clauses of the protocol that a transcript says it covers."""
    return tuple(
        clause.strip()
        for group in _CLAUSES.findall(text)
        for clause in group.split(",")
        if clause.strip()
    )


def replay(text: str, run: Callable[[Block], str], *, name: str) -> str:
    """Return the transcript with the output that `run` gives for each block.

    Raises TranscriptError with the place for what is not a transcript, and for
    what `run` raises of it.
    """
    lines: list[str] = []
    for part in _parts(text, name):
        if isinstance(part, str):
            lines.append(part)
            continue
        try:
            output = run(part)
        except TranscriptError as error:
            raise TranscriptError(f"{name}:{part.line}: {error.message}") from error
        assert "\n\n" not in output, "a blank line would end the output"
        lines += [*part.commands, SEPARATOR, output.rstrip("\n") or "ok"]
    return "\n".join(lines) + "\n"


def _parts(text: str, name: str) -> Iterator[str | Block]:
    """Yield comments and blank lines as they are, and blocks without output."""
    lines = iter(enumerate(text.splitlines(), start=1))
    for number, line in lines:
        if not line.strip() or line.startswith("#"):
            yield line
            continue
        commands = [line]
        for _, following in lines:
            if following == SEPARATOR:
                break
            if not following.strip():
                raise TranscriptError(f"{name}:{number}: {SEPARATOR} is missing")
            commands.append(following)
        else:
            raise TranscriptError(f"{name}:{number}: {SEPARATOR} is missing")
        yield Block(line=number, commands=tuple(commands))
        for _, following in lines:
            if not following.strip():
                yield ""
                break
