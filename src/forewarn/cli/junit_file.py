"""The JUnit report of a run: there from its beginning, so that none tells of another.

Until the run is over the report says that it is not, which is an error: a run that is
killed leaves that, and never the report of the run before.
"""

import contextlib
from collections.abc import Generator, Sequence
from pathlib import Path

from forewarn.cli import files
from forewarn.cli.failure import CommandError
from forewarn.sim.scenario import junit
from forewarn.sim.scenario.run import Result

NOT_ENDED = "the run has not ended: its results replace this when it does"


class Report:
    """Where the results of a run go; nowhere, if no file is named."""

    def __init__(self, file: str, names: Sequence[str]) -> None:
        """Write nothing yet. `names`: what is played, as far as that is known."""
        self._file = file
        self._names = names
        self._is_written = False

    def begin(self) -> None:
        """Say that the run has not ended, in the place of any earlier report.

        What is no file, such as a pipe, is told the results only.
        """
        if self._file and files.is_replaceable(self._file):
            text = junit.unfinished(self._names, NOT_ENDED)
            files.replace_text(self._file, text)

    def write(self, results: Sequence[Result]) -> None:
        """Write the results; raises CommandError."""
        if self._file:
            files.replace_text(self._file, junit.report(results))
        self._is_written = True

    def fail(self, why: str) -> None:
        """Say why there are no results; if there are, they stay."""
        if self._file and not self._is_written:
            files.replace_text(self._file, junit.unfinished(self._names, why))


@contextlib.contextmanager
def report(file: str, names: Sequence[str]) -> Generator[Report]:
    """Have a report while a run goes on; if the run cannot go on, it says why.

    Raises CommandError if it could not be written in the end.
    """
    if file:
        files.need_writable(file)
    made = Report(file, [Path(name).stem for name in names] or ["simulate"])
    made.begin()
    try:
        yield made
    except CommandError as error:
        made.fail("; ".join(filter(None, (error.message, error.hint))))
        raise
