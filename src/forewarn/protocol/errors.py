"""Errors, with a message and a hint.

All derive from `ForewarnError`, so that the endpoint, the operator API and the command
line each translate them in one place.
"""

from __future__ import annotations

from typing import Any


class ForewarnError(Exception):
    """An error that a caller can see."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        """Create the error. The message states the problem, the hint the fix."""
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[Any, ...]:
        """Support pickling even if a subclass has other constructor arguments."""
        return _again, (type(self), self.args, self.__dict__)


def _again(
    kind: type[ForewarnError], args: tuple[Any, ...], members: dict[str, Any]
) -> ForewarnError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(members)
    return error


class RefusedError(ForewarnError):
    """A request that the rules do not allow now.

    Nothing was changed. The same request can succeed later only if the hint says so.
    """


class NotFoundError(RefusedError):
    """A name that does not exist or that the caller may not see."""


class BadRequestError(ForewarnError):
    """A malformed request. Repeating it does not help."""


class IllegalTransitionError(AssertionError):
    """A transition that the table does not have: a bug in the program.

    It is an assertion error, so the transaction is rolled back.
    """
