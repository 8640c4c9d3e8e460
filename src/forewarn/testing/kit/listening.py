"""Listeners of worlds: why there is none, said so that it can be mended."""

import contextlib
from collections.abc import Generator

from forewarn.service import open_files
from forewarn.service.listening import StartError


@contextlib.contextmanager
def listening(vm: str) -> Generator[None]:
    """Raise StartError where no address is to be had for a VM."""
    try:
        yield
    except OSError as error:
        raise StartError(
            f"vm {vm} cannot listen: {error.strerror or error}",
            hint=open_files.hint(error, "a world needs ports of 127.0.0.1"),
        ) from error
