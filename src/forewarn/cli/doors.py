"""The address of the operator API, and the token and certificates for it."""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import httpx2

from forewarn.cli.failure import CommandError, Exit
from forewarn.fleet.validators import is_loopback
from forewarn.settings.files import read_file, refuse_unreadable

DEFAULT_URL = "http://127.0.0.1:8200"

TOKEN_FILE = Path("/etc/forewarn/token")
"""The operator token of the Debian package, for root and the group forewarn."""

TOKEN_BYTES_MAX = 65_536
"""Maximum bytes of a token file: a larger file is not a token file."""

_UNIX = "unix:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The address of the operator API."""

    base: str
    """The URL of the API's root."""
    socket: str = ""
    """The path of a Unix socket; empty for a URL."""
    is_here: bool
    """Whether the API is on this machine."""

    @property
    def is_private(self) -> bool:
        """Return whether others on the network cannot read the traffic."""
        return self.is_here or self.base.startswith("https:")

    @classmethod
    def of(cls, url: str) -> Self:
        """Return the address in a URL; raises CommandError."""
        path = url.removeprefix(_UNIX)
        if path != url:
            if not path.startswith("/"):
                raise _bad_url(url)
            return cls(base="http://localhost", socket=path, is_here=True)
        try:
            address = httpx2.URL(url)
        except httpx2.InvalidURL as error:
            raise _bad_url(url) from error
        if address.scheme not in {"http", "https"} or not address.host:
            raise _bad_url(url)
        return cls(base=url.rstrip("/"), is_here=is_loopback(address.host))


def trust(ca_file: str) -> ssl.SSLContext | bool:
    """Return the context that verifies certificates; raises CommandError."""
    if not ca_file:
        return True
    try:
        # Check the file first: the library would read a device without end.
        refuse_unreadable(ca_file)
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise CommandError(
            Exit.USAGE,
            f"the authorities in {ca_file} cannot be used: {error.strerror or error}",
            hint="Name a file of PEM certificates in --ca-file or FOREWARN_CA_FILE.",
        ) from error


def token_of_file(named: str, *, is_here: bool) -> str:
    """Return the token of a given file, or of the package's file.

    The package's token is used only for a service on this machine, and only if the
    caller can read it. Raises CommandError for a given file.
    """
    if not named and not is_here:
        return ""
    file = Path(named) if named else TOKEN_FILE
    try:
        text = read_file(file, most=TOKEN_BYTES_MAX).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        if not named:
            return ""
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise CommandError(
            Exit.USAGE,
            f"the token file {named} cannot be read: {reason}",
            hint="Name another file in FOREWARN_TOKEN_FILE, or set FOREWARN_TOKEN.",
        ) from error
    lines = (line.strip() for line in text.splitlines())
    entries = [line for line in lines if line and not line.startswith("#")]
    if not entries:
        return ""
    # TOKEN or NAME:TOKEN, as in the service's file.
    _, colon, token = entries[0].partition(":")
    return token.strip() if colon else entries[0]


def _bad_url(url: str) -> CommandError:
    return CommandError(
        Exit.USAGE,
        f"{url!r} is not the URL of a service",
        hint=f"Write it as {DEFAULT_URL}, in --url or FOREWARN_URL.",
    )
