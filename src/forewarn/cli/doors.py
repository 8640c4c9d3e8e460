"""Where the operator API is, and what the command line shows it: token and trust."""

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
"""The operator's token of a package, for this machine's root and group forewarn."""

TOKEN_BYTES_MAX = 65_536
"""Of a token file: a larger one is another file."""

_UNIX = "unix:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the operator API is."""

    base: str
    """The URL of its root."""
    socket: str = ""
    """The path of a Unix socket; empty: it is at the URL."""
    is_here: bool
    """On this machine."""

    @property
    def is_private(self) -> bool:
        """Tell whether nobody on the way can read what is sent."""
        return self.is_here or self.base.startswith("https:")

    @classmethod
    def of(cls, url: str) -> Self:
        """Return the place that a URL names; raises CommandError."""
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
    """Return what certificates are judged by; raises CommandError."""
    if not ca_file:
        return True
    try:
        # The library would read a device for ever.
        refuse_unreadable(ca_file)
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise CommandError(
            Exit.USAGE,
            f"the authorities in {ca_file} cannot be used: {error.strerror or error}",
            hint="name a file of PEM certificates in --ca-file or FOREWARN_CA_FILE",
        ) from error


def token_of_file(named: str, *, is_here: bool) -> str:
    """Return the token of a file that somebody named, or of the package's own.

    The package's token goes to a service on this machine only, and is left out if the
    caller may not read it. Raises CommandError for a named file.
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
            hint="name another file in FOREWARN_TOKEN_FILE, or set FOREWARN_TOKEN",
        ) from error
    lines = (line.strip() for line in text.splitlines())
    entries = [line for line in lines if line and not line.startswith("#")]
    if not entries:
        return ""
    # TOKEN or NAME:TOKEN, as the service reads it.
    _, colon, token = entries[0].partition(":")
    return token.strip() if colon else entries[0]


def _bad_url(url: str) -> CommandError:
    return CommandError(
        Exit.USAGE,
        f"{url!r} is not the URL of a service",
        hint=f"write it as {DEFAULT_URL}, in --url or FOREWARN_URL",
    )
