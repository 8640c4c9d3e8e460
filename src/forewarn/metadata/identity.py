"""Which VM asks: by its source address, its own listener, or a proxy's signature.

Identity is looked up for every request, unless nothing has changed since the last
one, so that a VM which has gone, or an address that has moved, is never served on
the strength of an old connection.
"""

import hmac
from typing import NamedTuple

from forewarn.control.transactions.messages import Guest
from forewarn.fleet import fields
from forewarn.metadata.cached_response import Edition
from forewarn.metadata.http import Request
from forewarn.metadata.ratelimit import Bucket

INSTANCE_HEADER = "x-instance-id"
SIGNATURE_HEADER = "x-instance-id-signature"


class Source(NamedTuple):
    """Where a request came from, as the kernel says."""

    address: str
    vm: str = ""
    """The VM whose own listener it is; empty: the shared one."""


class Caller:
    """A VM as the endpoint remembers it."""

    __slots__ = ("bucket", "greeted", "guest", "refused", "signature", "signed_as")

    def __init__(self, guest: Guest) -> None:
        """Begin with nothing answered yet."""
        self.guest = guest
        self.bucket = Bucket()
        self.refused: Bucket | None = None
        """Of requests that are refused as they are written: most VMs never send one."""
        self.greeted = -1
        """The epoch of its view in which it has got a document in full (1.10)."""
        self.signed_as: str | None = None
        """The name that a proxy has proved to speak for, in its own spelling; None:
        none yet, which no name equals."""
        self.signature = b""
        """What proves it: the same every time, so it is worked out once."""


class Directory:
    """Every VM that is served, by each way to know it."""

    def __init__(self, *, edition: Edition, secret: bytes = b"") -> None:
        """Know nobody; `secret` is a metadata proxy's, empty where there is none.

        Every change ends the `edition`.
        """
        self._edition = edition
        self.by_vm: dict[str, Caller] = {}
        self.by_address: dict[str, Caller] = {}
        self.by_vm_id: dict[str, Caller] = {}
        self._secret = secret
        self._proxies: set[str] = set()
        """Addresses from which a request with a good signature has come."""

    def is_proxy(self, source: Source) -> bool:
        """Tell whether a metadata proxy has proved that it is at `source`."""
        return not source.vm and source.address in self._proxies

    def forget_proxy(self, source: Source) -> None:
        """Have a proxy prove itself again: its last connection was closed."""
        self._proxies.discard(source.address)

    def put(self, guests: tuple[Guest, ...]) -> None:
        """Take new guests, and what is now true of known ones."""
        self._edition.end()
        # All let go before any claims, so that an address can change hands.
        for guest in guests:
            if (caller := self.by_vm.get(guest.vm)) is not None:
                self._release(caller)
        for guest in guests:
            self._claim(guest)

    def drop(self, vm: str) -> None:
        """Forget a VM; a repeated message does no harm."""
        self._edition.end()
        caller = self.by_vm.pop(vm, None)
        if caller is not None:
            self._release(caller)

    def concerned(self, guests: tuple[Guest, ...]) -> set[str]:
        """Return the VMs that `put` would change, and whose addresses it would take."""
        found: set[str] = set()
        for guest in guests:
            found.add(guest.vm)
            holders = [self.by_vm_id.get(guest.vm_id.lower())]
            holders += [
                self.by_address.get(normal_address(each)) for each in guest.addresses
            ]
            found.update(each.guest.vm for each in holders if each is not None)
        return found

    def find(self, source: Source) -> Caller | None:
        """Return who is at `source`, where no signature decides."""
        if source.vm:
            return self.by_vm.get(source.vm)
        return self.by_address.get(source.address)

    def identify(
        self, request: Request | None, source: Source
    ) -> tuple[Caller | None, bool]:
        """Return who asks, and whether a signature decided it.

        Without a request, only its address or its listener tells.
        """
        if request is not None and self.is_signed(request, source):
            return self.by_signature(request, source), True
        return self.find(source), False

    def is_signed(self, request: Request, source: Source) -> bool:
        """Tell whether a signature decides who asks.

        Where a secret is set, a request that carries either header of the proxy
        comes from the proxy or from a liar: its address must not count. A VM's
        own listener knows better, and without a secret the headers mean nothing.
        """
        if not self._secret or source.vm:
            return False
        return INSTANCE_HEADER in request.headers or SIGNATURE_HEADER in request.headers

    def by_signature(self, request: Request, source: Source) -> Caller | None:
        """Return whom the metadata proxy vouches for; None: nobody.

        A good signature, for a VM or not, shows that the proxy is at `source`.
        """
        names = request.values(INSTANCE_HEADER)
        signatures = request.values(SIGNATURE_HEADER)
        if len(names) != 1 or len(signatures) != 1:
            return None
        # Headers were read as Latin-1, which gives their bytes back unchanged.
        caller = self.by_vm_id.get(names[0].lower())
        if caller is not None and caller.signed_as == names[0]:
            expected = caller.signature
        else:
            name = names[0].encode("latin-1")
            expected = hmac.digest(self._secret, name, "sha256").hex().encode("ascii")
        if not hmac.compare_digest(expected, signatures[0].lower().encode("latin-1")):
            return None
        self._proxies.add(source.address)
        if caller is not None:
            caller.signed_as, caller.signature = names[0], expected
        return caller

    def _release(self, caller: Caller) -> None:
        guest = caller.guest
        for address in map(normal_address, guest.addresses):
            # Unless another VM has claimed it since.
            if self.by_address.get(address) is caller:
                del self.by_address[address]
        if self.by_vm_id.get(guest.vm_id.lower()) is caller:
            del self.by_vm_id[guest.vm_id.lower()]

    def _claim(self, guest: Guest) -> None:
        caller = self.by_vm.get(guest.vm)
        if caller is None:
            caller = self.by_vm[guest.vm] = Caller(guest)
        elif caller.guest.view_id != guest.view_id:
            # Epochs of different views have nothing to do with each other.
            caller.greeted = -1
        caller.guest = guest
        for address in map(normal_address, guest.addresses):
            self.by_address[address] = caller
        self.by_vm_id[guest.vm_id.lower()] = caller


def normal_address(text: str) -> str:
    """Return the one spelling of an IP address; another text as it is.

    An IPv6 socket shows an IPv4 client as `::ffff:192.0.2.4`, and a link-local
    one with the interface, `fe80::1%eth0`.
    """
    if ":" not in text:
        # IPv4 has one spelling only.
        return text
    return fields.normal_address(text.partition("%")[0])
