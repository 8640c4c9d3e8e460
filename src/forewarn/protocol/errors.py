"""Errors of the protocol, each with whose fault it is and what to do next.

Every error of this package derives from `ForewarnError`, so one door at each
border (endpoint, operator API, command line) can translate them all.
"""

from __future__ import annotations

from typing import Any


class ForewarnError(Exception):
    """Something that a caller may have to be told."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        """Say what is wrong; `hint` says what to do next."""
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[Any, ...]:
        """Go from one process to another as it is: constructors may want other
        arguments."""
        return _again, (type(self), self.args, self.__dict__)


def _again(
    kind: type[ForewarnError], args: tuple[Any, ...], members: dict[str, Any]
) -> ForewarnError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(members)
    return error


class RefusedError(ForewarnError):
    """The caller asked for something that the rules do not allow now.

    Nothing was changed. The same request may succeed later only if the hint
    says so.
    """


class NotFoundError(RefusedError):
    """The caller named something that does not exist, or that it may not see."""


class BadRequestError(ForewarnError):
    """The caller's request is malformed; repeating it will not help."""


class IllegalTransitionError(AssertionError):
    """The program asked the table for a step that the table forbids: a bug.

    It is an assertion: the transaction that met it is rolled back.
    """
