"""Failures of the agent's commands: the exit status and the message."""

from __future__ import annotations

from forewarn.protocol.errors import ForewarnError

FAILED = 1
USAGE = 2
UNREACHABLE = 3

INTERRUPTED = 130
"""The exit status after Ctrl-C, as in shells."""


class CommandFailedError(ForewarnError):
    """A command failed."""

    def __init__(self, status: int, message: str, *, hint: str = "") -> None:
        """Store the exit status, the message and the hint."""
        super().__init__(message, hint=hint)
        self.status = status
