"""Verbs of requests, actions on VMs, and kinds of targets."""

from __future__ import annotations

from forewarn.protocol.enumerations import Enumeration


class Action(Enumeration):
    """Action on VMs. A driver implements each."""

    FREEZE = "freeze"
    LIVE_MIGRATE = "live-migrate"
    REBOOT = "reboot"
    REDEPLOY = "redeploy"
    DELETE = "delete"
    REIMAGE = "reimage"
    """The disk of the guest is recreated from its image (OS upgrade, reimage)."""
    PAUSE = "pause"
    """First half of a freeze around host work: the VMs keep their memory and stand
    still."""
    RESUME = "resume"
    """Second half of such a freeze."""
    STOP = "stop"
    """First half of a reboot around host work: the VMs are shut down."""
    START = "start"
    """Second half of such a reboot."""
    NONE = "none"
    """No action: a failure has already happened."""


class Verb(Enumeration):
    """Verb of a request (table 5.9)."""

    MAINTAIN = "maintain"
    REBOOT = "reboot"
    REDEPLOY = "redeploy"
    EVICT = "evict"
    TERMINATE = "terminate"
    UPGRADE_OS = "upgrade-os"
    REIMAGE = "reimage"
    FAIL = "fail"
    PREDICT_FAILURE = "predict-failure"


PLANNED_VERBS = frozenset({Verb.MAINTAIN, Verb.UPGRADE_OS, Verb.REIMAGE})
"""Verbs of work that is done at its announced time. A predicted failure can stay
announced for a week, and delays no other work before it starts."""


class TargetKind(Enumeration):
    """Kind of the target of an operation."""

    HOST = "host"
    VM = "vm"
