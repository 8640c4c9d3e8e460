"""Where the service listens: addresses of settings, and what is said if one is taken."""

import contextlib
from collections.abc import Generator

from forewarn.fleet.values import split_listener
from forewarn.metadata.server import Address
from forewarn.protocol.errors import ForewarnError
from forewarn.service import open_files


class StartError(ForewarnError):
    """The service could not start; nothing is left running."""


def address_of(listen: str) -> Address:
    """Return the host and the port of a setting that was checked."""
    address = split_listener(listen)
    assert address is not None, listen
    return address


@contextlib.contextmanager
def refused(key: str, listen: str) -> Generator[None]:
    """Raise StartError where the address of the setting `key` cannot be had."""
    try:
        yield
    except OSError as error:
        raise StartError(
            f"cannot listen at {listen}: {error.strerror or error}",
            hint=open_files.hint(
                error, f"Stop what listens there, or set another address: {key}."
            ),
        ) from error
