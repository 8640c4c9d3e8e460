"""What can be wrong with a fault that somebody writes, and where."""

from collections.abc import Iterable

from forewarn.problems import PROBLEMS_MAX, Problem
from forewarn.protocol.errors import ForewarnError


class FaultError(ForewarnError):
    """A fault cannot be understood, and nothing was changed."""

    def __init__(self, message: str, *, key: str = "") -> None:
        """Say what is wrong; `key` is the key at fault, as a file writes it."""
        super().__init__(message, hint="the page 'Faults' lists what there is")
        self.key = key


class FaultFileError(ForewarnError):
    """A file of faults cannot be used, and nothing was changed."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        """Tell of the first problems in the order of their lines."""
        told = sorted(problems, key=lambda each: each.line)
        self.problems = tuple(told[:PROBLEMS_MAX])
        super().__init__(
            "\n".join(str(problem) for problem in self.problems),
            hint="mend the file of faults; the page 'Faults' lists what there is",
        )
