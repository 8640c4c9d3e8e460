"""The kind `kubernetes`: its keys, and a worker made of them.

It taints, cordons and drains this VM's node, sets a condition and emits Events
(`worker`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forewarn.agent.handlers.port import Ground
from forewarn.agent.integrations.kind import Entry, Faults, HandlerKind
from forewarn.agent.integrations.kubernetes.conditions import (
    ANY_EVENT,
    PREEMPTION,
    is_condition,
)
from forewarn.agent.integrations.kubernetes.drain import Plan
from forewarn.agent.integrations.kubernetes.node import EXCLUDED, parse_taint
from forewarn.agent.integrations.kubernetes.pods import CARES, Care
from forewarn.agent.integrations.kubernetes.worker import KubernetesWorker, Terms
from forewarn.agent.options import Forms
from forewarn.agent.settings_model import HandlerSettings
from forewarn.instants import HOUR, MINUTE, SECOND, Micros
from forewarn.settings.forms import Option

TAINT = "forewarn/maintenance:NoSchedule"
CONDITION = "ForewarnMaintenance"

FORCE_LEAD: Micros = 30 * SECOND
"""The usual grace of a pod: who is deleted then may end as it is used to."""

EXCLUSION_WAIT_MAX: Micros = 10 * MINUTE
"""More than the probes of a cloud's load balancer take to believe that a node is out."""

GRACE_MAX: Micros = 24 * HOUR
"""Of a setting: more than any notice leaves."""

_KEYS: Mapping[str, Option] = {
    "node": Option(
        form=Forms.TEXT,
        text="The node's name. Default: the variable `NODE_NAME`, or else the name of "
        "this computer.",
    ),
    "kubeconfig": Option(
        form=Forms.TEXT,
        text="A file with the cluster and a token or certificate. Default: the service "
        "account of the pod that the agent runs in.",
    ),
    "taint": Option(
        form=Forms.TEXT,
        may_be_empty=True,
        text=f"The taint that is set, `key:Effect` or `key=value:Effect`; without a "
        f"value, it is the event's type. Empty: none. Default: `{TAINT}`.",
    ),
    "cordon": Option(
        form=Forms.SWITCH,
        text="Whether the node is made unschedulable. Default: `true`.",
    ),
    "drain": Option(
        form=Forms.SWITCH,
        text="Whether its pods are evicted, and waited for. Default: `true`.",
    ),
    "exclude": Option(
        form=Forms.SWITCH,
        text=f"Whether the node gets the label `{EXCLUDED}`, so that load balancers of "
        "the cloud send nothing to it. Default: as `drain`.",
    ),
    "exclude_wait": Option(
        form=Forms.DURATION,
        least=SECOND,
        most=EXCLUSION_WAIT_MAX,
        text="So long after that label before pods are evicted, at most a fifth of the "
        "time: load balancers take it in slowly. Default: no wait.",
    ),
    "condition": Option(
        form=Forms.TEXT,
        may_be_empty=True,
        text="The type of the node's condition that is set. Empty: none. Default: "
        f"`{CONDITION}`.",
    ),
    "aks_conditions": Option(
        form=Forms.SWITCH,
        text=f"Whether it also sets `{ANY_EVENT}`, and for a Preempt `{PREEMPTION}`, as "
        "the node-problem-detector of AKS does, with NotBefore in the message, for "
        "Karpenter and others that read them. Not where that program runs. Default: "
        "`false`.",
    ),
    "events": Option(
        form=Forms.SWITCH,
        text="Whether Events about the node are emitted. Default: `true`.",
    ),
    "empty_dir": Option(
        form=Forms.WORD,
        words=CARES,
        text="Pods with an emptyDir, whose data would go: `evict`; `leave` them; "
        "`refuse`: leave them and fail. Default: `refuse`.",
    ),
    "bare_pods": Option(
        form=Forms.WORD,
        words=CARES,
        text="Pods without a controller, which nobody would make anew: `evict`, "
        "`leave`, `refuse`, as with `empty_dir`. Default: `refuse`.",
    ),
    "selector": Option(
        form=Forms.TEXT,
        text="Only pods with these labels are looked at, such as `tier!=batch`. "
        "Default: all.",
    ),
    "grace": Option(
        form=Forms.DURATION,
        least=SECOND,
        most=GRACE_MAX,
        text="At most, for each pod to end. Default: what it asks for. Never more "
        "than is left.",
    ),
    "force": Option(
        form=Forms.SWITCH,
        text="Whether pods that are still there near the deadline are deleted, "
        "whatever their budgets say. Default: `false`.",
    ),
    "force_lead": Option(
        form=Forms.DURATION,
        least=SECOND,
        most=HOUR,
        text="So long before the deadline, and not before half of the time is over. "
        "Default: `30s`.",
    ),
}


def _make(settings: HandlerSettings, ground: Ground) -> KubernetesWorker:
    more = settings.more
    taint, drains = more.get("taint", TAINT), more.get("drain", True)
    terms = Terms(
        node=more.get("node", ""),
        kubeconfig=more.get("kubeconfig", ""),
        cordon=more.get("cordon", True),
        taint=parse_taint(taint) if taint else None,
        drain=_plan(more) if drains else None,
        excludes=more.get("exclude", drains),
        exclusion_wait=more.get("exclude_wait", 0),
        condition=more.get("condition", CONDITION),
        aks_conditions=more.get("aks_conditions", False),
        events=more.get("events", True),
    )
    return KubernetesWorker(terms, settings, ground)


def _plan(more: Mapping[str, Any]) -> Plan:
    return Plan(
        empty_dir=Care(more.get("empty_dir", Care.REFUSE.value)),
        bare=Care(more.get("bare_pods", Care.REFUSE.value)),
        selector=more.get("selector", ""),
        grace=more.get("grace"),
        force=more.get("force", False),
        force_lead=more.get("force_lead", FORCE_LEAD),
    )


def _faults(entry: Entry) -> Faults:
    taint = entry.get("taint", TAINT)
    if taint:
        try:
            parse_taint(taint)
        except ValueError as error:
            yield "taint", str(error)
    condition = entry.get("condition", CONDITION)
    if condition and not is_condition(condition):
        yield "condition", f"{condition[:80]!r} is no type such as {CONDITION}"
    drains = entry.get("drain", True)
    for key in ("force", "grace", "empty_dir", "bare_pods", "selector"):
        if not drains and key in entry:
            yield key, "is for a handler that drains, and this one has drain = false"
    excludes = entry.get("exclude", drains)
    if "exclude_wait" in entry and not excludes:
        yield "exclude_wait", "is for a handler with exclude = true"
    if "force_lead" in entry and not (drains and entry.get("force", False)):
        yield "force_lead", "is for a handler with force = true"
    marks = taint or condition or excludes or entry.get("aks_conditions", False)
    if not (drains or marks or entry.get("cordon", True)):
        yield "", "it would do nothing: leave cordon, taint, drain or condition on"


KIND = HandlerKind(make=_make, keys=_KEYS, faults=_faults, marks_there=True)
