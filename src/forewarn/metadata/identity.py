"""Identification of VMs: by source address, own listener, or a signature.

A metadata proxy signs the ID of a VM, and a replica that follows signs the name of the VM
whose request it passes on.

The endpoint looks up the identity for every request, unless nothing has changed since
the last one. An old connection therefore never serves a deleted VM, or an address that
now belongs to another VM.
"""

import hmac
from typing import NamedTuple
from urllib.parse import unquote

from forewarn.fleet import fields
from forewarn.metadata.cached_response import Edition
from forewarn.metadata.http import Request
from forewarn.metadata.passed_on import REPLICA_HEADER, TakenRequests, signed_name
from forewarn.metadata.ratelimit import Bucket
from forewarn.protocol.published import Guest

INSTANCE_HEADER = "x-instance-id"
SIGNATURE_HEADER = "x-instance-id-signature"


class Source(NamedTuple):
    """The source of a request, according to the kernel."""

    address: str
    vm: str = ""
    """The VM whose own listener got the request; empty: the shared listener."""


class Caller:
    """A VM as the endpoint knows it."""

    __slots__ = ("bucket", "greeted", "guest", "refused", "signature", "signed_as")

    def __init__(self, guest: Guest) -> None:
        """Start before the first response."""
        self.guest = guest
        self.bucket = Bucket()
        self.refused: Bucket | None = None
        """Rate limit of invalid requests; None: the VM has sent none, like most VMs."""
        self.greeted = -1
        """The epoch of the VM's view in which it last got a full document (1.10)."""
        self.signed_as: str | None = None
        """The name in the proxy's spelling that a valid signature has proved; None:
        no signature yet."""
        self.signature = b""
        """The valid signature of `signed_as`, kept because it is always the same."""


class Directory:
    """All served VMs, by each way to identify them."""

    def __init__(self, *, edition: Edition, secret: bytes = b"") -> None:
        """Start empty; `secret` is that of a metadata proxy, empty if there is none.

        Every change ends the `edition`.
        """
        self._edition = edition
        self.by_vm: dict[str, Caller] = {}
        self.by_address: dict[str, Caller] = {}
        self.by_vm_id: dict[str, Caller] = {}
        self._secret = secret
        self._replica_key: bytes | None = None
        """Empty: this replica does not lead. None: there are no replicas."""
        self._taken = TakenRequests()
        """Those of this term that other replicas have passed on."""
        self._proxies: set[str] = set()
        """Source addresses of requests with a valid signature."""

    def trust_replicas(self, key: bytes) -> None:
        """Believe requests that other replicas sign with a key; empty: believe none.

        Afterwards, a request that claims to come from a replica is never identified by
        its address.
        """
        self._edition.end()
        self._replica_key = key
        self._taken = TakenRequests()

    def is_proxy(self, source: Source) -> bool:
        """Return whether a proxy or a replica has sent a valid signature from `source`."""
        return not source.vm and source.address in self._proxies

    def forget_proxy(self, source: Source) -> None:
        """Require a new valid signature, because the proxy's last connection was closed."""
        self._proxies.discard(source.address)

    def put(self, guests: tuple[Guest, ...]) -> None:
        """Add new guests and update known ones."""
        self._edition.end()
        # Release all old addresses first, so that an address can move to another VM.
        for guest in guests:
            if (caller := self.by_vm.get(guest.vm)) is not None:
                self._release(caller)
        for guest in guests:
            self._claim(guest)

    def drop(self, vm: str) -> None:
        """Remove a VM; a repeated message has no effect."""
        self._edition.end()
        caller = self.by_vm.pop(vm, None)
        if caller is not None:
            self._release(caller)

    def concerned(self, guests: tuple[Guest, ...]) -> set[str]:
        """Return the VMs that `put` would change, including those that lose addresses."""
        vms: set[str] = set()
        for guest in guests:
            vms.add(guest.vm)
            holders = [self.by_vm_id.get(guest.vm_id.lower())]
            holders += [
                self.by_address.get(normal_address(address))
                for address in guest.addresses
            ]
            vms.update(holder.guest.vm for holder in holders if holder is not None)
        return vms

    def find(self, source: Source) -> Caller | None:
        """Return the VM at `source`, for a request without a signature."""
        if source.vm:
            return self.by_vm.get(source.vm)
        return self.by_address.get(source.address)

    def identify(
        self, request: Request | None, source: Source
    ) -> tuple[Caller | None, bool]:
        """Return the caller, and whether a signature identified it.

        Without a request, only the address or the listener identifies it.
        """
        if request is not None and self.is_signed(request, source):
            return self.by_signature(request, source), True
        return self.find(source), False

    def is_signed(self, request: Request, source: Source) -> bool:
        """Return whether a signature must identify the caller.

        If a secret is set, a request with either header of the proxy comes from the
        proxy or is spoofed, so its address must not count. A VM's own listener
        identifies the VM in any case. Without a secret, the headers have no meaning.
        """
        if source.vm:
            return False
        headers = request.headers
        if self._replica_key is not None and REPLICA_HEADER in headers:
            return True
        if not self._secret:
            return False
        return INSTANCE_HEADER in headers or SIGNATURE_HEADER in headers

    def by_signature(self, request: Request, source: Source) -> Caller | None:
        """Return the VM that the metadata proxy's signature names; None: no such VM.

        A valid signature, even without a VM, shows that the proxy is at `source`.
        """
        if self._replica_key is not None and REPLICA_HEADER in request.headers:
            return self._by_replica(request, source)
        names = request.values(INSTANCE_HEADER)
        signatures = request.values(SIGNATURE_HEADER)
        if len(names) != 1 or len(signatures) != 1:
            return None
        # Headers were decoded as Latin-1, which encodes to the same bytes.
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

    def takes(self, request: Request) -> bool:
        """Return whether a request that a signature identified may be handled, once.

        The number of a request that another replica passes on is used up by it.
        """
        if self._replica_key is None or REPLICA_HEADER not in request.headers:
            return True
        return self._taken.take(request)

    def _by_replica(self, request: Request, source: Source) -> Caller | None:
        name = signed_name(self._replica_key or b"", request)
        if name is None:
            return None
        self._proxies.add(source.address)
        return self.by_vm.get(unquote(name))

    def _release(self, caller: Caller) -> None:
        guest = caller.guest
        for address in map(normal_address, guest.addresses):
            # Remove the address only if no other VM has it now.
            if self.by_address.get(address) is caller:
                del self.by_address[address]
        if self.by_vm_id.get(guest.vm_id.lower()) is caller:
            del self.by_vm_id[guest.vm_id.lower()]

    def _claim(self, guest: Guest) -> None:
        caller = self.by_vm.get(guest.vm)
        if caller is None:
            caller = self.by_vm[guest.vm] = Caller(guest)
        elif caller.guest.view_id != guest.view_id:
            # Epochs of different views are unrelated.
            caller.greeted = -1
        caller.guest = guest
        for address in map(normal_address, guest.addresses):
            self.by_address[address] = caller
        self.by_vm_id[guest.vm_id.lower()] = caller


def normal_address(text: str) -> str:
    """Return the normal form of an IP address; any other text unchanged.

    An IPv6 socket shows an IPv4 client as `::ffff:192.0.2.4`, and a link-local
    address with its interface, `fe80::1%eth0`.
    """
    if ":" not in text:
        # IPv4 addresses have only one form.
        return text
    return fields.normal_address(text.partition("%")[0])
