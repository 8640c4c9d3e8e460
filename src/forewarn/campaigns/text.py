"""A campaign file that is not read yet, its error, and the size of its plan.

Modules that only pass a file on import this one, and not the planner: to load that takes
a tenth of the start of a service.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from forewarn.protocol.errors import RefusedError
from forewarn.settings.tables import FileError, Tables

PLAN_HOSTS_MAX = 100_000
"""Maximum hosts with their times in one plan: a campaign of the largest fleet."""


class CampaignFileError(FileError):
    """The campaign file is invalid, and nothing was changed."""

    advice = "Fix the campaign file; nothing was changed."


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignText:
    """An unread campaign file."""

    name: str
    """Name of the file, for messages."""
    text: str
    key: str = ""
    """Name of the request, by which its caller can ask how far it has come; empty: it
    has none."""


REFUSED_TOLD_MAX = 10
"""Maximum keys that one refusal of a file names."""


class FileRefusedError(RefusedError):
    """A valid campaign file asks for something that the fleet or the service lacks."""

    def __init__(self, refused: Sequence[tuple[str, str]], *, hint: str) -> None:
        """Report the first keys, by full name, each with a message."""
        self.refused = tuple(refused)
        super().__init__(
            _with_rest([f"{key}: {message}" for key, message in refused]), hint=hint
        )

    def at_lines(self, text: CampaignText) -> RefusedError:
        """Return the refusal with the lines of the file that it is about."""
        tables = Tables(text.name)
        tables.parse(text.text)
        for key, message in self.refused:
            tables.blame(key, message)
        return RefusedError(_with_rest(list(map(str, tables.problems))), hint=self.hint)


def _with_rest(lines: Sequence[str]) -> str:
    rest = len(lines) - REFUSED_TOLD_MAX
    more = [f"and {rest:,} more"] if rest > 0 else []
    return "\n".join([*lines[:REFUSED_TOLD_MAX], *more])


@contextmanager
def about_key(key: str) -> Generator[None]:
    """Turn a refusal inside into one about this key of a campaign file."""
    try:
        yield
    except RefusedError as error:
        raise FileRefusedError([(key, error.message)], hint=error.hint) from None


@contextmanager
def with_lines(text: CampaignText) -> Generator[None]:
    """Name the lines of a file in the refusals inside that are about its keys."""
    try:
        yield
    except FileRefusedError as error:
        raise error.at_lines(text) from None
