"""`kubernetes`: taints, cordons and drains this VM's node, and opens it after the event.

This module has the keys of the settings; `worker` does the work.
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
"""Default of `force_lead`: the usual grace period of a pod."""

EXCLUSION_WAIT_MAX: Micros = 10 * MINUTE
"""Maximum of `exclude_wait`: probes of a cloud's load balancer take less."""

GRACE_MAX: Micros = 24 * HOUR
"""Maximum of `grace`: longer than any notice."""

_KEYS: Mapping[str, Option] = {
    "node": Option(
        form=Forms.TEXT,
        text="The name of the node. Default: the variable `NODE_NAME`, otherwise the host "
        "name.",
    ),
    "kubeconfig": Option(
        form=Forms.TEXT,
        text="A kubeconfig file with the cluster and a token or certificate. Default: the "
        "service account of the agent's pod.",
    ),
    "taint": Option(
        form=Forms.TEXT,
        may_be_empty=True,
        text=f"The taint to set, `key:Effect` or `key=value:Effect`. Without a value, the "
        f"value is the type of the event. Empty: no taint. Default: `{TAINT}`.",
    ),
    "cordon": Option(
        form=Forms.SWITCH,
        text="Whether to make the node unschedulable. Default: `true`.",
    ),
    "drain": Option(
        form=Forms.SWITCH,
        text="Whether to evict the pods and wait until they end. Default: `true`.",
    ),
    "exclude": Option(
        form=Forms.SWITCH,
        text=f"Whether to set the label `{EXCLUDED}` on the node, so that the cloud's load "
        "balancers exclude it. Default: the value of `drain`.",
    ),
    "exclude_wait": Option(
        form=Forms.DURATION,
        least=SECOND,
        most=EXCLUSION_WAIT_MAX,
        text="How long to wait after setting that label before pods are evicted, because "
        "load balancers react slowly; at most a fifth of the time. Default: no wait.",
    ),
    "condition": Option(
        form=Forms.TEXT,
        may_be_empty=True,
        text="The type of the node condition to set. Empty: no condition. Default: "
        f"`{CONDITION}`.",
    ),
    "aks_conditions": Option(
        form=Forms.SWITCH,
        text=f"Whether to set the conditions `{ANY_EVENT}`, and `{PREEMPTION}` for a "
        "Preempt, as the node-problem-detector of AKS does, with NotBefore in the "
        "message. Karpenter and other programs read them. Do not use this if that "
        "program runs. Default: `false`.",
    ),
    "events": Option(
        form=Forms.SWITCH,
        text="Whether to emit Events about the node. Default: `true`.",
    ),
    "empty_dir": Option(
        form=Forms.WORD,
        words=CARES,
        text="What to do with pods with an emptyDir, whose data would be lost: `evict` "
        "them; `leave` them; `refuse`: leave them and fail. Default: `refuse`.",
    ),
    "bare_pods": Option(
        form=Forms.WORD,
        words=CARES,
        text="What to do with pods without a controller, which would not be recreated: "
        "`evict`, `leave` or `refuse`, as for `empty_dir`. Default: `refuse`.",
    ),
    "selector": Option(
        form=Forms.TEXT,
        text="A label selector for the pods to evict, such as `tier!=batch`. Default: "
        "all pods.",
    ),
    "grace": Option(
        form=Forms.DURATION,
        least=SECOND,
        most=GRACE_MAX,
        text="Maximum grace period of each pod. It is never longer than the remaining "
        "time. Default: the pod's own.",
    ),
    "force": Option(
        form=Forms.SWITCH,
        text="Whether to delete the remaining pods near the deadline, in spite of their "
        "disruption budgets. Default: `false`.",
    ),
    "force_lead": Option(
        form=Forms.DURATION,
        least=SECOND,
        most=HOUR,
        text="How long before the deadline they are deleted, but not before half of the "
        "time is over. Default: `30s`.",
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
        yield (
            "condition",
            f"{condition[:80]!r} is not a valid condition type such as {CONDITION}",
        )
    drains = entry.get("drain", True)
    for key in ("force", "grace", "empty_dir", "bare_pods", "selector"):
        if not drains and key in entry:
            yield key, "requires drain = true"
    excludes = entry.get("exclude", drains)
    if "exclude_wait" in entry and not excludes:
        yield "exclude_wait", "requires exclude = true"
    if "force_lead" in entry and not (drains and entry.get("force", False)):
        yield "force_lead", "requires force = true"
    marks = taint or condition or excludes or entry.get("aks_conditions", False)
    if not (drains or marks or entry.get("cordon", True)):
        yield "", "it does nothing: enable cordon, taint, drain or condition"


KIND = HandlerKind(make=_make, keys=_KEYS, faults=_faults, marks_there=True)
