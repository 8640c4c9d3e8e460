"""Decide which pods of a node are evicted, which are left, and why. Pure.

The rules are those of `kubectl drain`. Pods of a DaemonSet would return immediately,
mirror pods cannot be evicted, and finished pods do not matter. The settings decide about
pods with data in an emptyDir and pods without a controller.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

from forewarn.agent.foreign import instant_in, members, objects
from forewarn.instants import Micros
from forewarn.protocol.frozen import frozen_dataclass

GRACE_SECONDS = 30
"""Default grace period of a pod, as in the API server."""

MIRROR = "kubernetes.io/config.mirror"
"""The annotation of a mirror pod, which represents a file of the kubelet."""

SYSTEM_PRIORITIES = frozenset({"system-node-critical", "system-cluster-critical"})
SYSTEM_NAMESPACE = "kube-system"


REFUSE, LEAVE, EVICT = CARES = ("refuse", "leave", "evict")
"""Values of the settings for pods that would lose something. `refuse`: the pods are left,
and the handler fails."""


class Fate(enum.Enum):
    """The result for a pod; the value is for messages."""

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
    """Whether the decision makes the handler fail."""
    is_system: bool = False
    grace: int = GRACE_SECONDS
    """Grace period of the pod, in seconds."""
    ends_at: Micros | None = None
    """When the pod is killed, if it is ending; None: it is not ending."""

    def __str__(self) -> str:
        """Return the pod's namespace and name."""
        return f"{self.namespace}/{self.name}"


def pod_of(value: object, *, empty_dir: str, bare: str) -> Pod:
    """Parse a pod of the API's list."""
    whole = members(value)
    metadata, spec = members(whole.get("metadata")), members(whole.get("spec"))
    namespace = str(metadata.get("namespace") or "")
    fate = _fate(metadata, spec, members(whole.get("status")))
    care = {Fate.LOCAL: empty_dir, Fate.BARE: bare}.get(fate)
    if fate is Fate.LOCAL and care == EVICT and not _controller(metadata):
        # Both settings apply; `empty_dir` permits it, so `bare_pods` decides.
        fate, care = Fate.BARE, bare
    ends_at = None
    if deleted := metadata.get("deletionTimestamp"):
        ends_at = instant_in(str(deleted)) or 0
    if care is not None and ends_at is not None:
        # The pod was already deleted, so it will lose its data anyway.
        care = EVICT
    grace = spec.get("terminationGracePeriodSeconds")
    return Pod(
        namespace=namespace,
        name=str(metadata.get("name") or ""),
        uid=str(metadata.get("uid") or ""),
        fate=Fate.EVICT if care == EVICT else fate,
        is_refused=care == REFUSE,
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
    """Return the kind of the pod's controller; empty: none."""
    for owner in objects(metadata.get("ownerReferences")):
        if owner.get("controller") is True:
            return str(owner.get("kind") or "")
    return ""
