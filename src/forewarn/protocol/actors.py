"""Who did something: a value with a kind, and its text for people.

Code decides on the kind and the fields. The text is rendered for people and never
read back. Pure.
"""

from __future__ import annotations

import enum

from forewarn.protocol.frozen import frozen_dataclass


class ActorKind(enum.Enum):
    """What kind of actor it is."""

    OPERATOR = "operator"
    """A holder of an operator's token, or a caller where no token is needed."""
    TENANT = "tenant"
    """A holder of a tenant's token."""
    VM = "vm"
    """A VM at the metadata endpoint; without a name, several VMs together."""
    CLOCK = "clock"
    """A timer of the service."""
    DRIVER = "driver"
    """A report of the driver."""
    SERVICE = "service"
    """Another part of the service, by its name: `fleet file`, `webhooks`."""
    POLICY = "policy"
    """A rule that approved an event when it was made; its name says which."""
    PLATFORM = "platform"
    """An actor that is redacted for a tenant: made when it is read, never stored."""


@frozen_dataclass
class Actor:
    """Who ordered, approved or did something."""

    kind: ActorKind
    name: str = ""
    """Of a token's holder, the VM's key, the part of the service or the rule."""
    tenant: str = ""
    """Whose token it is; empty: not a tenant's."""
    token: str = ""
    """Id of the token in the store that was presented; empty: none, or of a file."""
    peer: str = ""
    """Address of the peer of the connection, for callers of the operator API."""

    @property
    def text(self) -> str:
        """Return who it is, for people: `alice`, `shop/ci`, `vm web_0`, `clock`."""
        if self.kind is ActorKind.VM:
            return f"vm {self.name}".rstrip()
        if self.kind is ActorKind.TENANT:
            return f"{self.tenant}/{self.name}"
        if self.kind in {ActorKind.OPERATOR, ActorKind.SERVICE, ActorKind.POLICY}:
            return self.name
        return self.kind.value

    @property
    def as_approver(self) -> str:
        """Return who approved, as the API tells it: a VM's key, or `(alice)`."""
        return self.name if self.kind is ActorKind.VM else f"({self.text})"

    def is_of(self, tenant: str) -> bool:
        """Tell whether the actor holds a token of the tenant."""
        return self.kind is ActorKind.TENANT and self.tenant == tenant


def operator(name: str) -> Actor:
    """Return a holder of an operator's token, by name."""
    return Actor(kind=ActorKind.OPERATOR, name=name)


def tenant_user(tenant: str, name: str) -> Actor:
    """Return a holder of a tenant's token, by name."""
    return Actor(kind=ActorKind.TENANT, tenant=tenant, name=name)


def vm_actor(name: str) -> Actor:
    """Return a VM, by its key."""
    return Actor(kind=ActorKind.VM, name=name)


def service_part(name: str) -> Actor:
    """Return a part of the service."""
    return Actor(kind=ActorKind.SERVICE, name=name)


CLOCK = Actor(kind=ActorKind.CLOCK)
DRIVER = Actor(kind=ActorKind.DRIVER)
VMS = Actor(kind=ActorKind.VM)
"""Several VMs whose requests are decided in one transaction."""
PLATFORM = Actor(kind=ActorKind.PLATFORM)

POLICY = Actor(kind=ActorKind.POLICY, name="policy")
"""Approved by the scope's policy (clause 5.3)."""
NOBODY_LISTENS = Actor(kind=ActorKind.POLICY, name="nobody listens")
"""Approved since the scope is disabled and a user asked (clause 7.4)."""
DOWN_ALREADY = Actor(kind=ActorKind.POLICY, name="down already")
"""Approved since the VM does not run and so cannot prepare."""
NO_NOTICE = Actor(kind=ActorKind.POLICY, name="failure")
"""Approved since a failure asks nobody (clause 5.5)."""
