"""Find the endpoint if the settings do not name it (clause 8.2).

It is at 169.254.169.254 in a virtual network. Elsewhere, DHCP option 245 has its
address. The agent reads the leases of this machine's DHCP client. If nothing answers at
the addresses found, it asks NetworkManager and then the DHCP servers. This runs in
parallel with polling and does not delay it.

The DHCP clients have different formats: dhclient, systemd-networkd and older versions
of NetworkManager write text, dhcpcd stores the server's packet, and newer versions of
NetworkManager must be asked. Expired leases are ignored, since they may come from
another network if the image was cloned. On Windows and macOS, there is nothing to read.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from forewarn.agent.wire import dhcp
from forewarn.agent.wire.dhcp import SearchResult
from forewarn.clock import Clock
from forewarn.instants import MINUTE, SECOND, Micros, parse_instant
from forewarn.settings import files

logger = logging.getLogger("forewarn.agent.discovery")

DEFAULT = "http://169.254.169.254"
"""Address of the endpoint in a virtual network."""

PORTS = (80, 8080)
"""Possible ports of the endpoint at an address from DHCP."""

SEEK_AGAIN: Micros = MINUTE
SEEK_AGAIN_MAX: Micros = 15 * MINUTE
"""Maximum pause between two searches; it doubles from SEEK_AGAIN."""

Leases = Sequence[tuple[str, str]]

LEASES = (
    ("/run/systemd/netif/leases", "*"),
    ("/run/NetworkManager", "**/*leas*"),
    ("/var/lib/NetworkManager", "*lease*"),
    ("/var/lib/dhcp", "*lease*"),
    ("/var/lib/dhclient", "*lease*"),
    ("/var/lib/dhcpcd", "*lease*"),
    ("/var/lib/dhcpcd5", "*lease*"),
)
"""Directories with patterns for the files in them, where `**/` includes their
subdirectories: systemd-networkd, NetworkManager, dhclient, dhcpcd."""

LEASE_BYTES_MAX = 1 << 20
"""Maximum size that is read at the end of a lease file, since dhclient only appends."""

FILES_MAX = 100
"""Maximum number of lease files: one for each network interface, and some old ones."""

NMCLI_SECONDS = 5.0
"""Timeout for NetworkManager, which runs on this machine."""

NMCLI = (
    *("nmcli", "--terse", "--escape", "no"),
    *("--fields", "DHCP4", "device", "show"),
)
NMCLI_RUNS = "/run/NetworkManager"
"""This directory exists while NetworkManager is running."""

_OPTION = re.compile(
    r"(?:unknown[-_]|OPTION_|option[_-]|private_?)245[\"']?\s*[=:\s]\s*"
    r"(?:[\"']?"
    r"((?:0x)?[0-9A-Fa-f]{8}|[0-9A-Fa-f]{1,2}(?::[0-9A-Fa-f]{1,2}){3}"
    r"|\d{1,3}(?:\.\d{1,3}){3})(?![0-9A-Fa-f:.])"
    r"|\"((?:[^\"\\\n]|\\[0-7]{3}|\\.){4})\";)",
    re.IGNORECASE | re.ASCII,
)
_LEASE_ENDS = re.compile(r"^[ \t]*\}", re.MULTILINE)
"""The end of a lease of dhclient, which never writes a line break within a string."""

_EXPIRE = re.compile(
    r"^[ \t]*expire[ \t]+(?:epoch[ \t]+(\d{1,11})"
    r"|\d[ \t]+(\d{4})/(\d\d)/(\d\d)[ \t]+(\d\d:\d\d:\d\d))[ \t]*;",
    re.MULTILINE | re.ASCII,
)
"""The expiry in a lease of dhclient, in UTC, or `never`."""

_ESCAPED = re.compile(r"\\([0-7]{3}|.)", re.ASCII)
_BYTE_MAX = 255


def places(clock: Clock, known: Leases = LEASES) -> tuple[str, ...]:
    """Return the URLs that are known without a search, best first. Raises nothing."""
    return _urls(addresses(clock.now(), known))


def seek(clock: Clock) -> SearchResult:
    """Search for the address, until one source has it. Raises nothing.

    This takes seconds: it asks NetworkManager, and then the DHCP servers of the
    network.
    """
    heard = seek_here(clock)
    if heard.addresses:
        return heard
    # Few agents need it, and only after the known addresses failed.
    from forewarn.agent.wire import asking  # noqa: PLC0415

    return asking.ask(clock=clock)


def seek_here(_clock: Clock) -> SearchResult:
    """Search on this machine only. Raises nothing."""
    named = networkmanager()
    if not named:
        return SearchResult()
    sentences = (f"NetworkManager says that DHCP option 245 names {named}",)
    return SearchResult(addresses=(named,), sentences=sentences)


def urls_of(heard: SearchResult) -> tuple[str, ...]:
    """Return the possible URLs of the endpoint from the result of a search."""
    return _urls(heard.addresses)[1:]


class Discovery:
    """The search for the endpoint in a running agent."""

    def __init__(
        self,
        *,
        clock: Clock,
        seek: Callable[[Clock], SearchResult],
        known: Leases = LEASES,
    ) -> None:
        """Store the parameters; `seek` is called when no known address answers."""
        self._clock = clock
        self._known = known
        self._seek = seek
        self._heard: tuple[str, ...] = ()
        self._told: tuple[str, ...] = ()
        self._tried: frozenset[str] = frozenset()
        """The URLs returned last, and all before that during a search."""
        self._due = 0.0
        self._pause: Micros = SEEK_AGAIN
        self._thread: threading.Thread | None = None

    def places(self) -> tuple[str, ...]:
        """Return the URLs to try, one after another; never waits.

        A second call means that nothing answered there, so it starts a search in a
        thread. URLs that were not tried come first, so that a result of the search is
        next. A lease of an old network must not prevent a search. A new lease is tried
        first.
        """
        by_lease, heard = addresses(self._clock.now(), self._known), self._heard
        tried = self._tried
        is_vain = tried.issuperset(_urls(by_lease))
        # During a search, URLs from leases are not tried again.
        is_running = self._thread is not None and self._thread.is_alive()
        is_asking = is_running or (is_vain and self._begin())
        urls = _urls(heard if is_asking else [*heard, *by_lease])
        self._tried = tried.union(urls) if is_asking else frozenset(urls)
        return tuple(sorted(urls, key=tried.__contains__))

    def _begin(self) -> bool:
        """Start a search unless it is too early; return whether it was started."""
        if self._clock.monotonic() < self._due:
            return False
        self._due = self._clock.monotonic() + self._pause / SECOND
        self._pause = min(2 * self._pause, SEEK_AGAIN_MAX)
        self._thread = threading.Thread(target=self._run, name="dhcp", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            self._thread = None
        return self._thread is not None

    def _run(self) -> None:
        try:
            heard = self._seek(self._clock)
        except Exception:
            # Whatever happened, the endpoint may still answer at its usual address.
            logger.exception("the search for the endpoint failed")
            return
        self._heard = heard.addresses
        if heard.sentences != self._told:
            self._told = heard.sentences
            for sentence in heard.sentences:
                logger.info("%s", sentence)


def _urls(addresses: Iterable[str]) -> tuple[str, ...]:
    urls = {DEFAULT: None}
    for address in addresses:
        for port in PORTS:
            shown = "" if port == PORTS[0] else f":{port}"
            urls[f"http://{address}{shown}"] = None
    return tuple(urls)


# Leases


def addresses(now: Micros, leases: Sequence[tuple[str, str]] = LEASES) -> list[str]:
    """Return the addresses in leases that are valid at `now`, the newest first. Raises
    nothing."""
    files: list[tuple[float, str]] = []
    for directory, pattern in leases:
        for path in _files(directory, pattern):
            # A file may disappear meanwhile.
            with contextlib.suppress(OSError):
                files.append((os.path.getmtime(path), path))
    addresses_found: dict[str, None] = {}
    for written, path in sorted(files, reverse=True)[:FILES_MAX]:
        age = now - round(written * SECOND)
        address = address_in(_end_of(path), now=now, age=age)
        if address:
            addresses_found[address] = None
    return list(addresses_found)


def address_in(leases: bytes, *, now: Micros, age: Micros = 0) -> str:
    """Return the address in the last option 245 of a valid lease; empty: none.

    `age` is the time since the file was written, which determines the expiry for
    dhcpcd.
    """
    with contextlib.suppress(dhcp.DhcpError):
        reply = dhcp.parse(leases)
        is_over = reply.lasts is not None and age >= reply.lasts * SECOND
        return "" if is_over else reply.endpoint
    address = ""
    for lease in _LEASE_ENDS.split(leases.decode("utf-8", "replace")):
        if not _has_expired(lease, now):
            address = _named_in(lease) or address
    return address


def networkmanager(runs: str = NMCLI_RUNS) -> str:
    """Return the address that NetworkManager has from DHCP; empty: none.

    This takes at most five seconds, if NetworkManager hangs.
    """
    if not os.path.isdir(runs):
        return ""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(  # noqa: S603 - always the same words
            NMCLI,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=NMCLI_SECONDS,
            check=False,
        )
        return _named_in(done.stdout[:LEASE_BYTES_MAX].decode("utf-8", "replace"))
    return ""


def _named_in(text: str) -> str:
    name = ""
    for match in _OPTION.finditer(text):
        name = _address(match[1], match[2]) or name
    return name


def _has_expired(lease: str, now: Micros) -> bool:
    """Return whether a lease has expired, according to its text."""
    endings: list[tuple[str, ...]] = _EXPIRE.findall(lease)
    if not endings:
        return False
    epoch, year, month, day, clock = endings[-1]
    if epoch:
        return int(epoch) * SECOND <= now
    try:
        ends = parse_instant(f"{year}-{month}-{day}T{clock}Z")
    except ValueError:
        return False
    return ends <= now


def _address(text: str | None, letters: str | None) -> str:
    if text is None:
        # dhclient writes the bytes as text if all of them are letters.
        shown = _ESCAPED.sub(
            lambda match: chr(int(match[1], 8)) if match[1].isdigit() else match[1],
            letters or "",
        )
        numbers = [ord(letter) for letter in shown]
    elif "." in text:
        numbers = [int(part) for part in text.split(".")]
    elif ":" in text:
        numbers = [int(part, 16) for part in text.split(":")]
    else:
        numbers = list(bytes.fromhex(text.removeprefix("0x").removeprefix("0X")))
    if any(number > _BYTE_MAX for number in numbers):
        return ""
    return dhcp.endpoint_in(bytes(numbers))


def _files(directory: str, pattern: str) -> Iterator[str]:
    """Yield the files of a directory, or none if it cannot be read."""
    name = pattern.removeprefix("**/")
    for place, _, names in os.walk(directory):
        for file in names:
            path = os.path.join(place, file)
            if fnmatchcase(file, name) and os.path.isfile(path):
                yield path
        if name == pattern:
            return


def _end_of(path: str) -> bytes:
    try:
        with files.opened(path) as file:
            file.seek(max(os.fstat(file.fileno()).st_size - LEASE_BYTES_MAX, 0))
            return file.read(LEASE_BYTES_MAX)
    except OSError:
        return b""
