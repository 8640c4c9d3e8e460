"""Errors in faults."""

from forewarn.protocol.errors import ForewarnError
from forewarn.settings.tables import FileError


class FaultError(ForewarnError):
    """A fault is invalid; nothing was changed."""

    def __init__(self, message: str, *, key: str = "") -> None:
        """Set the message; `key` is the invalid key, as in a file."""
        super().__init__(message, hint="See the page 'Faults' for the syntax.")
        self.key = key


class FaultFileError(FileError):
    """A faults file is invalid; nothing was changed."""

    advice = "Fix the faults file. See the page 'Faults' for the syntax."
