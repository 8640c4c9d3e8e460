"""Losses: the hosts or VMs that were lost together, for which the brake came on. Pure."""

from __future__ import annotations

from forewarn.instants import Micros
from forewarn.protocol.enumerations import Enumeration
from forewarn.protocol.frozen import frozen_dataclass


class LossKind(Enumeration):
    """Losses that a limit counts."""

    HOSTS = "hosts"
    VMS = "vms"
    RACK = "rack"
    """Hosts of one rack."""


@frozen_dataclass
class Losses:
    """Losses within the span of the brake that are more than its limit."""

    what: LossKind
    count: int
    """The number of losses at which the brake came on."""
    most: int
    """The limit: how many may be lost."""
    within: Micros
    """The span in which they were lost."""
    named: tuple[str, ...]
    """Names of some of them, in their order."""
    rack: str = ""
    """The rack, if the hosts of one rack were counted."""
