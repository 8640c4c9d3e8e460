"""Actions that are not possible for a domain, as far as libvirt knows.

libvirt does not know whether two hosts share the storage of a disk: a migration tries it.
"""

from __future__ import annotations

from xml.etree import ElementTree as ET

from . import disks
from .domains import Domain, Domains

BOUND = frozenset({"pci", "mdev", "scsi_host"})
"""Types of devices of the host that stay on it. A device of a network pair is detached
before a migration, and its type is not in question then."""

NOT_PERSISTENT = "it has no persistent domain"


def limits_of(domains: Domains, domain: Domain) -> dict[str, str]:
    """Return the reasons why actions are not possible, by action; raises WorkError."""
    limits: dict[str, str] = {}
    xml = domains.do(domain, lambda handle: str(handle.XMLDesc(0)))
    if device := bound_device(xml):
        limits["live-migrate"] = f"it has a passthrough device ({device})"
    if not domain.is_active and (images := disks.images_noted_in(xml)):
        limits["live-migrate"] = disks.unfinished_text(images)
    if not domains.is_persistent(domain):
        limits.update(dict.fromkeys(("stop", "reimage"), NOT_PERSISTENT))
    return limits


def bound_device(xml: str) -> str:
    """Return the type of a device that binds a domain to its host; empty: it has none."""
    devices = ET.fromstring(xml).find("./devices")  # noqa: S314
    for device in () if devices is None else devices:
        if device.find("./teaming") is not None:
            continue
        if device.tag == "hostdev" and device.get("type") in BOUND:
            return str(device.get("type"))
        if device.tag == "interface" and device.get("type") == "hostdev":
            return "pci"
    return ""
