"""What can be asked for, what is done to VMs, and to what it is done."""

from __future__ import annotations

import enum


class Action(enum.Enum):
    """What is done to the VMs; a driver has one way for each."""

    FREEZE = "freeze"
    LIVE_MIGRATE = "live-migrate"
    REBOOT = "reboot"
    REDEPLOY = "redeploy"
    DELETE = "delete"
    REIMAGE = "reimage"
    """The guest's disk is made anew from its image (OS upgrade, reimage)."""
    NONE = "none"
    """Nothing: a failure has already happened."""


class Verb(enum.Enum):
    """What was asked for (table 5.9)."""

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
"""Work that is announced for a time at which it will be done. A failure that is
predicted can stay announced for a week, and delays nothing before it has started."""


class TargetKind(enum.Enum):
    """What an operation is done to."""

    HOST = "host"
    VM = "vm"
