"""The mark of a call, as an element in the metadata of a domain. Pure."""

from __future__ import annotations

from xml.etree import ElementTree as ET
from xml.sax.saxutils import quoteattr

from .orders import BEGUN, Mark

NAMESPACE = "urn:forewarn:libvirt:1"
"""Namespace of the element."""

PREFIX = "forewarn"


def element_of(mark: Mark) -> str:
    """Return the element of a mark."""
    stop = f" stop={quoteattr(mark.stop)}" if mark.stop else ""
    term = ""
    if mark.term:
        term = f' term="{mark.term}" store={quoteattr(mark.store)}'
    name, state = quoteattr(mark.text), quoteattr(mark.state)
    return f"<call name={name} state={state}{stop}{term}/>"


def mark_in(text: str) -> Mark | None:
    """Return the mark in an element; None: it is not readable."""
    try:
        # libvirt has parsed it already, and allows no entities there.
        element = ET.fromstring(text)  # noqa: S314
    except ET.ParseError:
        return None
    name = element.get("name")
    if not name:
        return None
    return Mark(
        text=name,
        state=element.get("state", BEGUN),
        stop=element.get("stop", ""),
        term=int(term) if (term := element.get("term", "")).isdecimal() else 0,
        store=element.get("store", ""),
    )
