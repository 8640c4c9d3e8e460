"""Compare the names of VMs as whole names (clause 2.5). Pure.

Azure Resource Manager keeps the case of a name as entered, and ignores case when it
compares names: `Web_0` and `web_0` are the same VM.
"""

from __future__ import annotations

from collections.abc import Iterable

from forewarn.protocol.notices import Notice

BASE = 36
SUFFIX = 6
"""Base-36 digits at the end of the computer name of a scale set's VM."""


def key_of(name: str) -> str:
    """Return a key that is equal for all spellings of a VM's name."""
    return name.casefold()


def keys_of(several: Iterable[str]) -> frozenset[str]:
    """Return the keys of several names."""
    return frozenset(map(key_of, several))


def is_same(name: str, other: str) -> bool:
    """Return whether two names mean the same VM."""
    return key_of(name) == key_of(other)


def is_named(notice: Notice, name: str) -> bool:
    """Return whether the event names exactly this VM."""
    return bool(name) and key_of(name) in keys_of(notice.resources)


def scale_set_name(computer_name: str) -> str:
    """Return `x_18` for the computer name `x00000i`; empty: it has another form.

    In Resources, the platform names the VMs of a scale set by a decimal number. Their
    computer names have the same number in base 36, with six digits.
    """
    prefix, suffix = computer_name[:-SUFFIX], computer_name[-SUFFIX:].lower()
    is_number = suffix.isascii() and suffix.isalnum()
    return f"{prefix}_{int(suffix, BASE)}" if prefix and is_number else ""
