"""The JUnit report of a run, which exists from the start of the run.

Until the run ends, the report contains an error. So a killed run leaves this error, and
never the report of an earlier run.
"""

import contextlib
from collections.abc import Generator, Sequence
from pathlib import Path

from forewarn.cli import files
from forewarn.cli.command_table import CommandError
from forewarn.sim.scenario import junit
from forewarn.sim.scenario.run import Result

NOT_ENDED = "the run has not ended; its results replace this error at the end"


class Report:
    """The report file of a run, or no file."""

    def __init__(self, file: str, names: Sequence[str]) -> None:
        """Write nothing yet. `names` are the scenarios, as far as they are known."""
        self._file = file
        self._names = names
        self._is_written = False

    def begin(self) -> None:
        """Write that the run has not ended, and replace an earlier report.

        If the path is not a regular file, such as a pipe, only the results are written.
        """
        if self._file and files.is_replaceable(self._file):
            files.replace_text(self._file, junit.unfinished(self._names, NOT_ENDED))

    def write(self, results: Sequence[Result]) -> None:
        """Write the results; raises CommandError."""
        if self._file:
            files.replace_text(self._file, junit.report(results))
        self._is_written = True

    def fail(self, why: str) -> None:
        """Write why there are no results, unless results are already written."""
        if self._file and not self._is_written:
            files.replace_text(self._file, junit.unfinished(self._names, why))


@contextlib.contextmanager
def report(file: str, names: Sequence[str]) -> Generator[Report]:
    """Return a context with the report of a run; an error of the run is written to it.

    Raises CommandError if the report could not be written at the end.
    """
    if file:
        files.need_writable(file)
    report_ = Report(file, [Path(name).stem for name in names] or ["simulate"])
    report_.begin()
    try:
        yield report_
    except CommandError as error:
        report_.fail("; ".join(filter(None, (error.message, error.hint))))
        raise
