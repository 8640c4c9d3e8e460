"""Finds the endpoint where nobody has said where it is (clause 8.2).

It is at 169.254.169.254; outside a virtual network DHCP tells its address in option
245, which clients keep in a lease file each in its own form. These files are read,
and no packet is sent. On Windows and macOS only the fixed address is known.
"""

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

DEFAULT = "http://169.254.169.254"
"""Where it is in a virtual network."""

PORTS = (80, 8080)
"""Where it may listen at an address that DHCP tells."""

LEASES = (
    ("/run/systemd/netif/leases", "*"),
    ("/run/NetworkManager", "**/*leas*"),
    ("/var/lib/NetworkManager", "*lease*"),
    ("/var/lib/dhcp", "*lease*"),
    ("/var/lib/dhclient", "*lease*"),
    ("/var/lib/dhcpcd", "*lease*"),
)
"""Folders and the files in them, `**/` also in the folders of those:
systemd-networkd, NetworkManager, dhclient."""

LEASE_BYTES_MAX = 1 << 20
"""Of a lease file: dhclient appends for ever, and the newest is at its end."""

FILES_MAX = 100
"""Lease files that are read: one for each network card, and some old ones."""

_OPTION = re.compile(
    r"(?:unknown[-_]|OPTION_|option[_-]|private_?)245[\"']?\s*[=:\s]\s*[\"']?"
    r"((?:0x)?[0-9A-Fa-f]{8}|[0-9A-Fa-f]{1,2}(?::[0-9A-Fa-f]{1,2}){3}"
    r"|\d{1,3}(?:\.\d{1,3}){3})(?![0-9A-Fa-f:.])",
    re.IGNORECASE | re.ASCII,
)
_BYTE_MAX = 255


def address_in(lease: str) -> str:
    """Return the address that the last option 245 of a lease tells; empty: none."""
    found = ""
    for match in _OPTION.finditer(lease):
        found = _address(match[1]) or found
    return found


def _address(text: str) -> str:
    if "." in text:
        numbers = [int(part) for part in text.split(".")]
    elif ":" in text:
        numbers = [int(part, 16) for part in text.split(":")]
    else:
        numbers = list(bytes.fromhex(text.removeprefix("0x").removeprefix("0X")))
    is_address = all(number <= _BYTE_MAX for number in numbers) and numbers[0] > 0
    return ".".join(str(number) for number in numbers) if is_address else ""


def places(leases: Sequence[tuple[str, str]] = LEASES) -> tuple[str, ...]:
    """Return the URLs to try, the likeliest first. Raises nothing."""
    found = {DEFAULT: None}
    for address in _told_by_dhcp(leases):
        for port in PORTS:
            url = (
                f"http://{address}" if port == PORTS[0] else f"http://{address}:{port}"
            )
            found[url] = None
    return tuple(found)


def _told_by_dhcp(leases: Sequence[tuple[str, str]]) -> list[str]:
    files: list[tuple[float, str]] = []
    for folder, pattern in leases:
        for path in _files(folder, pattern):
            # One that has gone meanwhile tells nothing.
            with contextlib.suppress(OSError):
                files.append((os.path.getmtime(path), path))
    addresses: dict[str, None] = {}
    for _, path in sorted(files, reverse=True)[:FILES_MAX]:
        address = address_in(_end_of(path))
        if address:
            addresses[address] = None
    return list(addresses)


def _files(folder: str, pattern: str) -> Iterator[str]:
    """Yield the files of a folder; of one that we may not read, or is not there, none."""
    name = pattern.removeprefix("**/")
    for place, _, files in os.walk(folder):
        for file in files:
            path = os.path.join(place, file)
            if fnmatchcase(file, name) and os.path.isfile(path):
                yield path
        if name == pattern:
            return


def _end_of(path: str) -> str:
    try:
        with open(path, "rb") as file:
            file.seek(max(os.fstat(file.fileno()).st_size - LEASE_BYTES_MAX, 0))
            return file.read(LEASE_BYTES_MAX).decode("utf-8", "replace")
    except OSError:
        return ""
