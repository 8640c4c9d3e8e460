"""The location of the operator API: its URLs, the token of this machine, and its CA."""

import ssl
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast

import httpx2

from forewarn.cli.command_table import CommandError, Exit
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


def trust(ca_file: str, base: str) -> ssl.SSLContext | bool:
    """Return the context that verifies the certificate of the API at `base`.

    Raises CommandError.
    """
    if not ca_file and base.startswith("http:"):
        # Such an API shows no certificate. Loading the authorities of the system takes
        # longer than the request.
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
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
        text = read_file(file, bytes_max=TOKEN_BYTES_MAX).decode("utf-8")
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


REPLICAS_MAX = 9
"""Maximum URLs: a cluster with more replicas gains nothing."""


class Doors:
    """The operator APIs of the replicas of a service; one of them is used at a time.

    With several URLs, a request goes to the next one if a replica cannot be reached, and
    to the leader if a replica only follows. A token is never sent to a URL that the user
    has not given.
    """

    def __init__(
        self, urls: str, token: str, *, ca_file: str, timeout: httpx2.Timeout
    ) -> None:
        """Use the URLs in a string, which spaces or commas separate; raises CommandError."""
        self._urls = _urls_of(urls)
        self._at = 0
        self._clients = [
            _client(Place.of(url), token, ca_file=ca_file, timeout=timeout)
            for url in self._urls
        ]

    def __len__(self) -> int:
        """Return the number of URLs."""
        return len(self._urls)

    @property
    def url(self) -> str:
        """Return the URL that is used now."""
        return self._urls[self._at]

    @property
    def http(self) -> httpx2.Client:
        """Return the connections to the URL that is used now."""
        return self._clients[self._at]

    def turn(self, leader: str = "") -> None:
        """Use another URL: that of the leader, if it was given, or the next one."""
        wanted = leader.rstrip("/")
        next_one = (self._at + 1) % len(self._urls)
        self._at = self._urls.index(wanted) if wanted in self._urls else next_one

    def close(self) -> None:
        """Close all connections."""
        for client in self._clients:
            client.close()


_UNAVAILABLE = 503


def leader_in(answer: httpx2.Response) -> str | None:
    """Return the leader's URL in the answer of a replica that only follows.

    Empty: the replica knows none. None: it is another answer.
    """
    if answer.status_code != _UNAVAILABLE:
        return None
    try:
        body: Any = answer.json()
    except ValueError:
        return None
    if not isinstance(body, dict):
        return None
    error = cast("dict[str, Any]", body)
    return str(error.get("leader") or "") if error.get("kind") == "follows" else None


def is_here(urls: str) -> bool:
    """Return whether all services are on this machine; raises CommandError."""
    return all(Place.of(url).is_here for url in _urls_of(urls))


def _urls_of(text: str) -> Sequence[str]:
    urls = [url.rstrip("/") for url in text.replace(",", " ").split()]
    if not urls:
        raise _bad_url(text)
    if len(urls) > REPLICAS_MAX:
        raise CommandError(
            Exit.USAGE,
            f"{len(urls)} URLs of services are given, and at most {REPLICAS_MAX} are used",
            hint="Name some of the replicas in FOREWARN_URL; they know who leads.",
        )
    return tuple(dict.fromkeys(urls))


def _client(
    place: Place, token: str, *, ca_file: str, timeout: httpx2.Timeout
) -> httpx2.Client:
    if token and not place.is_private:
        sys.stderr.write(
            f"forewarn: warning: the token is sent to {place.base} without encryption; "
            "use https\n"
        )
    return httpx2.Client(
        base_url=place.base + "/",
        transport=httpx2.HTTPTransport(uds=place.socket) if place.socket else None,
        verify=trust(ca_file, place.base),
        headers={"Authorization": f"Bearer {token}"} if token else {},
        timeout=timeout,
        # A web proxy cannot reach this machine.
        trust_env=not place.is_here,
    )
