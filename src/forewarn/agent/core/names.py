"""Whose event it is: names are compared whole (clause 2.5). Pure."""

from forewarn.protocol.notices import Notice

BASE = 36
SUFFIX = 6
"""Digits at the end of the computer name of a scale set's VM, in base 36."""


def is_named(notice: Notice, name: str) -> bool:
    """Tell whether the event names the VM, and not one whose name is like it."""
    return bool(name) and name in notice.resources


def scale_set_name(computer_name: str) -> str:
    """Return `x_18` for the computer name `x00000i`; empty: it is of another form.

    The platform names the VMs of a scale set by a decimal number in Resources, and
    their operating systems by the same number in base 36, with six digits.
    """
    prefix, suffix = computer_name[:-SUFFIX], computer_name[-SUFFIX:].lower()
    if not prefix or len(suffix) < SUFFIX or not suffix.isascii():
        return ""
    if not suffix.isalnum():
        return ""
    return f"{prefix}_{int(suffix, BASE)}"
