"""Which pods of a node are evicted, which are left, and why. Pure.

As `kubectl drain` has it: pods of a DaemonSet and mirror pods would come back at once
or cannot go, finished ones are no work. Pods with data in an emptyDir, and those that
nobody would make anew, are for the settings.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

from forewarn.agent.foreign import members, objects
from forewarn.instants import Micros, parse_instant
from forewarn.protocol.frozen import frozen_dataclass

GRACE_SECONDS = 30
"""Of a pod that tells none, as the API server has it."""

MIRROR = "kubernetes.io/config.mirror"
"""The annotation of a pod that stands for a file of the kubelet's."""

SYSTEM_PRIORITIES = frozenset({"system-node-critical", "system-cluster-critical"})
SYSTEM_NAMESPACE = "kube-system"


class Care(enum.Enum):
    """What is done with pods that lose something; the value is the setting's word."""

    REFUSE = "refuse"
    """They are left, and the handler fails."""
    LEAVE = "leave"
    EVICT = "evict"


CARES = tuple(each.value for each in Care)


class Fate(enum.Enum):
    """What becomes of a pod; the value is for a sentence."""

    EVICT = "to be evicted"
    DAEMON = "of a DaemonSet"
    MIRROR = "static"
    FINISHED = "finished"
    LOCAL = "with data in an emptyDir"
    BARE = "without a controller"


@frozen_dataclass
class Pod:
    """One pod of the node."""

    namespace: str
    name: str
    uid: str
    fate: Fate
    is_refused: bool = False
    """It is left, and should not be."""
    is_system: bool = False
    grace: int = GRACE_SECONDS
    """Seconds that it may take to end, of its own."""
    ends_at: Micros | None = None
    """When its end is forced, where it has begun; None: it has not."""

    def __str__(self) -> str:
        """Return how people call it."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_ending(self) -> bool:
        """Tell whether somebody has deleted it, and it has not gone yet."""
        return self.ends_at is not None


def pod_of(found: object, *, empty_dir: Care, bare: Care) -> Pod:
    """Return a pod of the API's list, with its fate."""
    whole = members(found)
    metadata, spec = members(whole.get("metadata")), members(whole.get("spec"))
    namespace = str(metadata.get("namespace") or "")
    fate = _fate(metadata, spec, members(whole.get("status")))
    care = {Fate.LOCAL: empty_dir, Fate.BARE: bare}.get(fate)
    if fate is Fate.LOCAL and care is Care.EVICT and not _controller(metadata):
        # It loses both: its data may go, and it has to be asked whether it may.
        fate, care = Fate.BARE, bare
    ends_at = _instant(metadata.get("deletionTimestamp"))
    if care is not None and ends_at is not None:
        # Somebody has deleted it already, with all that it loses.
        care = Care.EVICT
    grace = spec.get("terminationGracePeriodSeconds")
    return Pod(
        namespace=namespace,
        name=str(metadata.get("name") or ""),
        uid=str(metadata.get("uid") or ""),
        fate=Fate.EVICT if care is Care.EVICT else fate,
        is_refused=care is Care.REFUSE,
        is_system=namespace == SYSTEM_NAMESPACE
        or spec.get("priorityClassName") in SYSTEM_PRIORITIES,
        grace=grace if isinstance(grace, int) else GRACE_SECONDS,
        ends_at=ends_at,
    )


def _fate(
    metadata: Mapping[str, Any], spec: Mapping[str, Any], status: Mapping[str, Any]
) -> Fate:
    controller = _controller(metadata)
    if MIRROR in members(metadata.get("annotations")) or controller == "Node":
        return Fate.MIRROR
    if controller == "DaemonSet":
        return Fate.DAEMON
    if status.get("phase") in {"Succeeded", "Failed"}:
        return Fate.FINISHED
    if any("emptyDir" in volume for volume in objects(spec.get("volumes"))):
        return Fate.LOCAL
    return Fate.EVICT if controller else Fate.BARE


def _controller(metadata: Mapping[str, Any]) -> str:
    """Return the kind of what would make a pod anew; empty: nobody would."""
    for owner in objects(metadata.get("ownerReferences")):
        if owner.get("controller") is True:
            return str(owner.get("kind") or "")
    return ""


def _instant(text: object) -> Micros | None:
    if not text:
        return None
    try:
        return parse_instant(str(text))
    except ValueError:
        return 0
