"""Disks that have a base image, and their replacement by an empty layer above it.

A disk is replaced only if it is a volume of a storage pool, so that libvirt itself can
create it again with the same name, size and format.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree as ET

from .domains import INACTIVE, Domains, Found
from .orders import WorkError


@dataclass(frozen=True)
class Image:
    """A disk with a base image."""

    path: str
    xml: str
    """The definition of a new volume in its place."""


def disk_paths(xml: str) -> list[str]:
    """Return the files of the disks in a domain's definition."""
    sources = ET.fromstring(xml).findall("./devices/disk[@device='disk']/source")  # noqa: S314
    return [path for each in sources if (path := each.get("file"))]


def volume_above(xml: str) -> str:
    """Return the definition of a new volume like this one; empty: it has no base image."""
    volume = ET.fromstring(xml)  # noqa: S314
    base = volume.findtext("./backingStore/path")
    if not base:
        return ""
    new = ET.Element("volume")
    for tag in ("name", "capacity"):
        if (old := volume.find(tag)) is not None:
            new.append(old)
    target = ET.SubElement(new, "target")
    for tag in ("format", "permissions"):
        if (old := volume.find(f"./target/{tag}")) is not None:
            target.append(old)
    store = ET.SubElement(new, "backingStore")
    ET.SubElement(store, "path").text = base
    if (old := volume.find("./backingStore/format")) is not None:
        store.append(old)
    return ET.tostring(new, encoding="unicode")


def images_of(domains: Domains, found: Found) -> list[Image]:
    """Return the disks of a domain that have a base image; raises WorkError for none."""
    xml = domains.do(found, lambda domain: domain.XMLDesc(INACTIVE))

    def look(conn: Any) -> list[Image]:
        images: list[Image] = []
        for path in disk_paths(xml):
            try:
                text = conn.storageVolLookupByPath(path).XMLDesc(0)
            except domains.hosts.api.libvirtError:
                # It is in no pool.
                continue
            if new := volume_above(text):
                images.append(Image(path=path, xml=new))
        return images

    images = domains.ask(found.host, look)
    if not images:
        raise WorkError(
            "no disk has a base image in a storage pool of libvirt, so there is nothing to "
            "recreate it from"
        )
    return images


def recreate(domains: Domains, found: Found, images: list[Image]) -> None:
    """Replace disks by empty layers above their base images."""

    def replace_all(conn: Any) -> None:
        for image in images:
            volume = conn.storageVolLookupByPath(image.path)
            pool = volume.storagePoolLookupByVolume()
            volume.delete(0)
            pool.createXML(image.xml, 0)

    domains.ask(found.host, replace_all)
