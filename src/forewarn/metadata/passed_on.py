"""The signature of requests of VMs that a replica passes on to the leader. Pure.

It covers the name of the VM, the method, the body, and a number that the sender uses once.
An attacker who reads the network can therefore neither send a request again nor use
its signature for another request.
"""

import hmac
from hashlib import sha256
from urllib.parse import quote

from forewarn.metadata.http import Request

REPLICA_HEADER = "x-forewarn-vm"
"""The name of the VM, percent-encoded."""

REQUEST_HEADER = "x-forewarn-request"
"""The sender, percent-encoded, the number of the request, and the digest of its body,
which is thus signed before the body is read."""

REPLICA_SIGNATURE_HEADER = "x-forewarn-vm-signature"

NUMBERS_KEPT = 16_384
"""Newest numbers of a sender that are remembered: older ones are refused.
Requests overtake each other for 8 s at most, at about 1,000 a second; each number is a bit."""

SENDERS_MAX = 1_000
"""Maximum senders of a term; each start of a replica is one. Requests of further ones are
refused until the next takeover. To forget one would accept its requests again."""


def replica_key(secret: str, term: int) -> bytes:
    """Return the key with which replicas sign requests to the leader of a term.

    `secret` is that of the store, which all replicas read. A signature of an earlier term
    is worth nothing.
    """
    return hmac.digest(secret.encode(), f"replica {term}".encode(), "sha256")


def replica_headers(
    key: bytes, vm: str, *, method: str, body: bytes, sender: str, number: int
) -> dict[str, str]:
    """Return the headers with which a replica says that a request is that of a VM.

    No two senders have the same name, and each uses a `number`, from 1, only once.
    """
    name = quote(vm, safe="")
    request = f"{quote(sender, safe='')} {number} {sha256(body).hexdigest()}"
    return {
        REPLICA_HEADER: name,
        REQUEST_HEADER: request,
        REPLICA_SIGNATURE_HEADER: _signature(key, method, name, request),
    }


def signed_name(key: bytes, request: Request) -> str | None:
    """Return the name of the VM as it is signed, percent-encoded; None: it is not signed.

    Its body and number are not checked, so that a head can be judged before its body.
    """
    names = request.values(REPLICA_HEADER)
    requests = request.values(REQUEST_HEADER)
    signatures = request.values(REPLICA_SIGNATURE_HEADER)
    if not key or not len(names) == len(requests) == len(signatures) == 1:
        return None
    expected = _signature(key, request.method, names[0], requests[0])
    # Headers were decoded as Latin-1, which encodes to the same bytes.
    signature = signatures[0].encode("latin-1")
    return (
        names[0] if hmac.compare_digest(expected.encode("ascii"), signature) else None
    )


def _signature(key: bytes, method: str, name: str, request: str) -> str:
    text = f"{method}\n{name}\n{request}".encode("latin-1")
    return hmac.digest(key, text, "sha256").hex()


class TakenRequests:
    """The requests of a term that the leader has taken, by sender and number."""

    def __init__(self) -> None:
        """Start without any."""
        self._windows: dict[str, tuple[int, int]] = {}
        """The highest number of each sender, and a bit for each number that was taken:
        the lowest bit is that of the highest number."""

    def take(self, request: Request) -> bool:
        """Return whether a request with a valid signature may be handled, once.

        It may not if its body is another one, or if it was taken before or may have been.
        """
        sender, number, digest = request.values(REQUEST_HEADER)[0].split(" ")
        if digest != sha256(request.body).hexdigest():
            return False
        if sender not in self._windows and len(self._windows) >= SENDERS_MAX:
            return False
        return self._take(sender, int(number))

    def _take(self, sender: str, number: int) -> bool:
        highest, taken = self._windows.get(sender, (0, 0))
        newer = number - highest
        if newer > 0:
            older = taken << newer if newer < NUMBERS_KEPT else 0
            self._windows[sender] = (number, (older | 1) & ((1 << NUMBERS_KEPT) - 1))
            return True
        if -newer >= NUMBERS_KEPT or taken >> -newer & 1:
            return False
        self._windows[sender] = (highest, taken | 1 << -newer)
        return True
