"""One command line of a story, taken apart."""

import shlex

from forewarn.instants import SECOND, Micros, parse_duration
from tests.support.transcripts import moments
from tests.support.transcripts.form import TranscriptError
from tests.support.transcripts.names import Names


class Words:
    """The words of a command: its name, then arguments and `--options`."""

    def __init__(self, line: str, names: Names) -> None:
        """Split the line; names of the story become ids where ids are meant."""
        try:
            command = shlex.split(line)
        except ValueError as error:
            raise TranscriptError(f"{line!r}: {error}") from error
        self.line = line
        self.name = command[0]
        self._names = names
        self._rest = command[1:]

    def flag(self, name: str) -> bool:
        """Take an option without a value; return whether it is there."""
        if name in self._rest:
            self._rest.remove(name)
            return True
        return False

    def option(self, name: str, default: str = "") -> str:
        """Take an option with its value."""
        if name not in self._rest:
            return default
        at = self._rest.index(name)
        if at + 1 == len(self._rest):
            raise self.error(f"{name} needs a value")
        value = self._rest[at + 1]
        del self._rest[at : at + 2]
        return value

    def options(self, name: str) -> tuple[str, ...]:
        """Take an option that may be given several times."""
        values: list[str] = []
        while name in self._rest:
            values.append(self.option(name))
        return tuple(values)

    def duration(self, name: str) -> Micros | None:
        """Take an option that is a duration."""
        text = self.option(name)
        return self.as_duration(text) if text else None

    def seconds(self, name: str) -> int | None:
        """Take an option that is a duration in whole seconds; `-1` is unknown."""
        text = self.option(name)
        if not text:
            return None
        return -1 if text == "-1" else self.as_duration(text) // SECOND

    def moment(self, name: str, *, now: Micros) -> Micros | None:
        """Take an option that is a time of the story, or `+` and a duration."""
        text = self.option(name)
        return self.as_moment(text, now=now) if text else None

    def all(self, *, least: int = 1, most: int | None = None) -> list[str]:
        """Take the arguments that are left; there must be nothing else."""
        wrong = next((word for word in self._rest if word.startswith("--")), None)
        if wrong is not None:
            raise self.error(f"{self.name} has no option {wrong}")
        if len(self._rest) < least or (most is not None and len(self._rest) > most):
            raise self.error(f"{self.name} takes another number of arguments")
        words, self._rest = self._rest, []
        return [self._names.meant(word) for word in words]

    def one(self) -> str:
        """Take the only argument."""
        return self.all(most=1)[0]

    def as_duration(self, text: str) -> Micros:
        """Return the duration that a word writes."""
        try:
            return parse_duration(text)
        except ValueError as error:
            raise self.error(str(error)) from error

    def as_moment(self, text: str, *, now: Micros) -> Micros:
        """Return the instant that a word writes."""
        try:
            return moments.meant(text, now=now)
        except ValueError as error:
            raise self.error(str(error)) from error

    def error(self, message: str) -> TranscriptError:
        """Return the error for this line."""
        return TranscriptError(f"{self.line!r}: {message}")
