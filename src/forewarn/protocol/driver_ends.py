"""How a driver's call ended that did not do all of its work: values. Pure."""

from __future__ import annotations

import enum
from typing import ClassVar

from forewarn.protocol.frozen import frozen_dataclass

SAID_CHARACTERS_MAX = 500
"""Maximum length of a driver's words that are kept: a message, and no log."""


@frozen_dataclass
class Contradiction:
    """What a success that was reported cannot leave behind."""

    vm: str
    runs: bool | None = None
    """Whether the VM was seen to run, though it should not, or not to. None: it is on
    another host."""
    host: str = ""
    wanted_host: str = ""


@frozen_dataclass
class VmEnd:
    """What became of one VM for which the call was not done."""

    vm: str
    is_unknown: bool = False
    said: str = ""
    """The driver's words."""
    wrong: tuple[Contradiction, ...] = ()


class Trouble(enum.Enum):
    """What the link to the driver met."""

    UNSTARTED = "unstarted"
    """The call timed out, and was not started."""
    STOPPED = "stopped"
    """The call timed out, and the driver stopped it."""
    NOT_STOPPED = "not stopped"
    """The call timed out and goes on, or what was said is why that is not known."""
    NOT_KNOWN = "not known"
    """The driver does not know what became of the call."""
    OTHER_DRIVER = "other driver"
    """The call was given to another kind of driver."""


@frozen_dataclass
class CallEnd:
    """Why a call has not succeeded as a whole.

    Of its fields those are filled that say it; all empty: the driver gave no reason.
    """

    kind: ClassVar[str] = "call end"
    trouble: Trouble | None = None
    said: str = ""
    """The driver's words."""
    given_to: str = ""
    """The kind of driver that the call was given to, if it is another one."""
    driver: str = ""
    """The kind of driver that the service has then."""
    wrong: tuple[Contradiction, ...] = ()
    """A success was reported, and this was seen."""
    vms: tuple[VmEnd, ...] = ()
    """VMs for which it was not done, bounded in number."""
    more: int = 0
    """How many such VMs are not named."""
    of: int = 0
    """Number of VMs of the call, where some of them are done; otherwise 0."""
    done: int = 0
    failed_vms: tuple[str, ...] = ()
    """The call failed for these; an operator says that the rest is done."""
