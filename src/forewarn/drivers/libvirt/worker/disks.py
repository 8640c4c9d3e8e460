"""Disks that have a base image, and their replacement by an empty layer above it.

A disk is replaced only if it is a volume of a storage pool, so that libvirt itself can
create it again with the same name, size and format.

Between the deletion of a volume and the end of its creation, a crash leaves no disk or a
part of one. The definitions of the new volumes are therefore noted in the metadata of the
domain before the first deletion, and removed after the last creation. While they are
there, no action starts the VM before each disk is whole: a missing one is created, and a
disk that is not whole is only deleted by `reimage`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree as ET

from .domains import INACTIVE, Domain, Domains
from .hosts import NO_VOLUME
from .orders import WorkError

NAMESPACE = "urn:forewarn:libvirt:disks:1"
"""Namespace of the element with the disks that are being replaced."""

PREFIX = "forewarn-disks"


@dataclass(frozen=True)
class Image:
    """A disk with a base image."""

    path: str
    pool: str
    """Name of its storage pool."""
    xml: str
    """The definition of a new volume in its place."""


def disk_paths(xml: str) -> list[str]:
    """Return the files of the disks in a domain's definition."""
    sources = ET.fromstring(xml).findall("./devices/disk[@device='disk']/source")  # noqa: S314
    return [path for source in sources if (path := source.get("file"))]


def base_of(xml: str) -> str:
    """Return the base image in the definition of a volume; empty: it has none."""
    return ET.fromstring(xml).findtext("./backingStore/path") or ""  # noqa: S314


def volume_above(xml: str) -> str:
    """Return the definition of a new volume like this one; empty: it has no base image."""
    volume = ET.fromstring(xml)  # noqa: S314
    base = base_of(xml)
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


# The note of disks that are being replaced


def element_of(images: Iterable[Image]) -> str:
    """Return the note as an element."""
    root = ET.Element("disks")
    for image in images:
        element = ET.SubElement(root, "disk", path=image.path, pool=image.pool)
        element.text = image.xml
    return ET.tostring(root, encoding="unicode")


def images_in(text: str) -> list[Image]:
    """Return the disks in a note; it is empty if there is none."""
    return _images_under(ET.fromstring(text)) if text else []  # noqa: S314


def images_noted_in(xml: str) -> list[Image]:
    """Return the disks in the note of a domain with this definition."""
    note = ET.fromstring(xml).find(f"./metadata/{{{NAMESPACE}}}disks")  # noqa: S314
    return [] if note is None else _images_under(note)


def _images_under(note: ET.Element) -> list[Image]:
    return [
        Image(
            path=element.get("path", ""),
            pool=element.get("pool", ""),
            xml=element.text or "",
        )
        for element in note.findall("./disk")
    ]


def unfinished(domains: Domains, domain: Domain) -> list[Image]:
    """Return the disks that a reimage began to replace; raises WorkError."""
    return images_in(domains.read_metadata(domain, NAMESPACE))


def forget(domains: Domains, domain: Domain) -> None:
    """Remove the note, if there is one: each disk is whole. Raises WorkError."""
    if unfinished(domains, domain):
        domains.write_metadata(domain, None, prefix=PREFIX, namespace=NAMESPACE)


# The replacement


def images_of(domains: Domains, domain: Domain) -> list[Image]:
    """Return the disks of a domain that have a base image; raises WorkError for none.

    A disk that an earlier reimage deleted is known from its note.
    """
    xml = domains.do(domain, lambda handle: handle.XMLDesc(INACTIVE))
    noted = {image.path: image for image in unfinished(domains, domain)}

    def look(conn: Any) -> list[Image]:
        images_or_none = (_image_at(domains, conn, path) for path in disk_paths(xml))
        present = {image.path: image for image in images_or_none if image is not None}
        return list({**noted, **present}.values())

    images = domains.ask(domain.host, look)
    if not images:
        raise WorkError(
            "no disk has a base image in a storage pool of libvirt, so there is nothing to "
            "recreate it from"
        )
    return images


def _image_at(domains: Domains, conn: Any, path: str) -> Image | None:
    volume = _volume_at(domains, conn, path)
    new = "" if volume is None else volume_above(volume.XMLDesc(0))
    if volume is None or not new:
        return None
    pool = str(volume.storagePoolLookupByVolume().name())
    return Image(path=path, pool=pool, xml=new)


def _volume_at(domains: Domains, conn: Any, path: str) -> Any:
    """Return the volume of a file; None: it is in no pool."""
    try:
        return conn.storageVolLookupByPath(path)
    except domains.hosts.api.libvirtError as error:
        if error.get_error_code() == NO_VOLUME:
            return None
        raise


def recreate(domains: Domains, domain: Domain, images: list[Image]) -> None:
    """Replace disks by empty layers above their base images; raises WorkError.

    A crash leaves the note. A later reimage replaces all disks again, also those that were
    written in part.
    """
    # If the program is killed, its failure has its last output.
    domains.say(f"replacing {paths_of(images)}")
    domains.write_metadata(
        domain, element_of(images), prefix=PREFIX, namespace=NAMESPACE
    )
    for image in images:
        _make(domains, domain, image, deletes=True)
    forget(domains, domain)


def finish(domains: Domains, domain: Domain) -> None:
    """Create the disks that a reimage has deleted and not created; raises WorkError.

    A disk that is there is not deleted: it can be one that an operator made by hand.
    """
    images = unfinished(domains, domain)
    for image in images:
        _make(domains, domain, image, deletes=False)
    if images:
        forget(domains, domain)


def _make(domains: Domains, domain: Domain, image: Image, *, deletes: bool) -> None:
    """Create the volume of a disk, instead of the one that is there."""

    def make(conn: Any) -> str:
        pool = conn.storagePoolLookupByName(image.pool)
        # libvirt does not know a file whose creation it did not see to its end.
        pool.refresh(0)
        volume = _volume_at(domains, conn, image.path)
        if volume is not None and not deletes:
            return str(volume.XMLDesc(0))
        if volume is not None:
            volume.delete(0)
        pool.createXML(image.xml, 0)
        return image.xml

    try:
        xml = domains.ask(domain.host, make)
    except WorkError as error:
        raise type(error)(f"{error}; {unfinished_text([image])}") from None
    if base_of(xml) != base_of(image.xml):
        raise WorkError(
            f"the disk {image.path} was not written to its end: delete it on {domain.host} "
            f"with `virsh vol-delete {image.path}`, then reboot the VM"
        )


def unfinished_text(images: Iterable[Image]) -> str:
    """Return the sentence about disks that a reimage has not replaced yet.

    They come last, because a report keeps the end of a long output.
    """
    return (
        "its reimage did not end, and a reboot of the VM creates what is missing of "
        f"{paths_of(images)}"
    )


def paths_of(images: Iterable[Image]) -> str:
    """Return the files of disks, for a sentence."""
    return ", ".join(image.path for image in images)
