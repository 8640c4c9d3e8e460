"""What can be wrong with a fault that somebody writes, and where."""

from forewarn.protocol.errors import ForewarnError
from forewarn.settings.tables import FileError


class FaultError(ForewarnError):
    """A fault cannot be understood, and nothing was changed."""

    def __init__(self, message: str, *, key: str = "") -> None:
        """Say what is wrong; `key` is the key at fault, as a file writes it."""
        super().__init__(message, hint="the page 'Faults' lists what there is")
        self.key = key


class FaultFileError(FileError):
    """A file of faults cannot be used, and nothing was changed."""

    advice = "mend the file of faults; the page 'Faults' lists what there is"
