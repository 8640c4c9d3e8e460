"""Actors: the value that says who did something, and its text for people.

Code uses the kind and the fields. The text is rendered for people and never
parsed. Pure.
"""

from __future__ import annotations

from forewarn.protocol.enumerations import Enumeration
from forewarn.protocol.frozen import frozen_dataclass


class ActorKind(Enumeration):
    """Kind of actor."""

    OPERATOR = "operator"
    """A holder of an operator token, or a caller of an API that needs no token."""
    TENANT = "tenant"
    """A holder of a tenant token."""
    VM = "vm"
    """A VM at the metadata endpoint; without a name: several VMs."""
    CLOCK = "clock"
    """A timer of the service."""
    DRIVER = "driver"
    """A report of the driver."""
    SERVICE = "service"
    """Another component of the service, such as `fleet file` or `webhooks`."""
    POLICY = "policy"
    """A rule that approved an event when it was created; `name` is the name of the
    rule."""
    PLATFORM = "platform"
    """An actor that is redacted for a tenant. It is never stored."""


_NAMED = frozenset({ActorKind.OPERATOR, ActorKind.SERVICE, ActorKind.POLICY})
"""Kinds whose text is the name."""


@frozen_dataclass
class Actor:
    """Actor that requested, approved or did something."""

    kind: ActorKind
    name: str = ""
    """Name of the token holder, the VM, the component of the service or the rule."""
    tenant: str = ""
    """Tenant that owns the token; empty: not a tenant token."""
    token: str = ""
    """ID of the stored token that was presented; empty: none, or a token from a file."""
    peer: str = ""
    """Peer address of the connection, for callers of the operator API."""

    @property
    def text(self) -> str:
        """Return the text for people: `alice`, `shop/ci`, `vm web_0`, `clock`."""
        if self.kind is ActorKind.VM:
            return f"vm {self.name}".rstrip()
        if self.kind is ActorKind.TENANT:
            return f"{self.tenant}/{self.name}"
        return self.name if self.kind in _NAMED else self.kind.value

    @property
    def as_approver(self) -> str:
        """Return the approver as the API shows it: the name of a VM, or `(alice)`."""
        return self.name if self.kind is ActorKind.VM else f"({self.text})"

    def is_of(self, tenant: str) -> bool:
        """Return whether the actor holds a token of the tenant."""
        return self.kind is ActorKind.TENANT and self.tenant == tenant

    def is_same_as(self, other: Actor) -> bool:
        """Return whether both are one person, with any token and from any address.

        The names of people are unique in upper or lower case. Callers without a token have
        one name, so they count as one person too. Names of components are exact: they
        contain those of campaigns.
        """
        own, others = self.name, other.name
        if self.kind in {ActorKind.OPERATOR, ActorKind.TENANT}:
            own, others = own.casefold(), others.casefold()
        return (self.kind, self.tenant, own) == (other.kind, other.tenant, others)


def operator(name: str) -> Actor:
    """Return the holder of an operator token."""
    return Actor(kind=ActorKind.OPERATOR, name=name)


def tenant_user(tenant: str, name: str) -> Actor:
    """Return the holder of a tenant token."""
    return Actor(kind=ActorKind.TENANT, tenant=tenant, name=name)


def vm_actor(name: str) -> Actor:
    """Return a VM as an actor."""
    return Actor(kind=ActorKind.VM, name=name)


def service_part(name: str) -> Actor:
    """Return a component of the service as an actor."""
    return Actor(kind=ActorKind.SERVICE, name=name)


def campaign_actor(name: str) -> Actor:
    """Return a campaign as an actor: the owner of the cordons of its failed hosts."""
    return service_part(f"{_CAMPAIGN}{name}")


def is_campaign(actor: Actor) -> bool:
    """Return whether an actor is a campaign."""
    return actor.kind is ActorKind.SERVICE and actor.name.startswith(_CAMPAIGN)


_CAMPAIGN = "campaign "


CLOCK = Actor(kind=ActorKind.CLOCK)
DRIVER = Actor(kind=ActorKind.DRIVER)
VMS = Actor(kind=ActorKind.VM)
"""Several VMs whose requests are decided in one transaction."""
PLATFORM = Actor(kind=ActorKind.PLATFORM)

POLICY = Actor(kind=ActorKind.POLICY, name="policy")
"""The scope's policy, which approves events automatically (clause 5.3)."""
NOBODY_LISTENS = Actor(kind=ActorKind.POLICY, name="nobody listens")
"""The rule that approves a user's request if the scope is disabled (clause 7.4)."""
DOWN_ALREADY = Actor(kind=ActorKind.POLICY, name="down already")
"""The rule that approves an event of a VM that is down and cannot prepare."""
NO_NOTICE = Actor(kind=ActorKind.POLICY, name="failure")
"""The rule that approves the event of a failure, which needs no approval (clause
5.5)."""
