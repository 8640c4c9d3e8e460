"""The settings of the kind `kubernetes`: the keys, their defaults, and their checks."""

from __future__ import annotations

from collections.abc import Mapping

from forewarn.agent.integrations.kind import Entry, Faults
from forewarn.agent.integrations.kubernetes.conditions import (
    ANY_EVENT,
    PREEMPTION,
    is_condition,
)
from forewarn.agent.integrations.kubernetes.node import EXCLUDED, parse_taint
from forewarn.agent.integrations.kubernetes.pods import CARES, REFUSE
from forewarn.agent.options import Forms
from forewarn.instants import HOUR, MINUTE, SECOND, Micros
from forewarn.protocol.frozen import frozen_dataclass
from forewarn.settings.forms import Option

TAINT = "forewarn/maintenance:NoSchedule"
CONDITION = "ForewarnMaintenance"

FORCE_LEAD: Micros = 30 * SECOND
"""Default of `force_lead`: the usual grace period of a pod."""

EXCLUSION_WAIT_MAX: Micros = 10 * MINUTE
"""Maximum of `exclude_wait`: probes of a cloud's load balancer take less."""

GRACE_MAX: Micros = 24 * HOUR
"""Maximum of `grace`: longer than any notice."""


@frozen_dataclass
class Terms:
    """The values of the settings."""

    node: str = ""
    """Empty: NODE_NAME, otherwise the host name."""
    kubeconfig: str = ""
    taint: str = TAINT
    """Empty: no taint."""
    cordon: bool = True
    drain: bool = True
    exclude: bool | None = None
    """None: the value of `drain`."""
    exclude_wait: Micros = 0
    condition: str = CONDITION
    """The type of the handler's condition; empty: none."""
    aks_conditions: bool = False
    events: bool = True
    empty_dir: str = REFUSE
    bare_pods: str = REFUSE
    selector: str = ""
    """A label selector; empty: all pods."""
    grace: Micros | None = None
    """Maximum grace period of each pod; None: the pod's own."""
    force: bool = False
    force_lead: Micros = FORCE_LEAD

    @property
    def excludes(self) -> bool:
        """Return whether load balancers exclude the node."""
        return self.drain if self.exclude is None else self.exclude

    @property
    def has_conditions(self) -> bool:
        """Return whether the handler sets any condition."""
        return bool(self.condition) or self.aks_conditions

    @property
    def marks(self) -> bool:
        """Return whether the handler marks the node."""
        return bool(self.cordon or self.taint or self.excludes or self.has_conditions)


KEYS: Mapping[str, Option] = {
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


def faults(entry: Entry) -> Faults:
    """Return the problems of the settings, such as contradictions."""
    terms = Terms(**{key: entry[key] for key in KEYS if key in entry})
    if terms.taint:
        try:
            parse_taint(terms.taint)
        except ValueError as error:
            yield "taint", str(error)
    if terms.condition and not is_condition(terms.condition):
        shown = repr(terms.condition[:80])
        yield "condition", f"{shown} is not a valid condition type such as {CONDITION}"
    for key in ("force", "grace", "empty_dir", "bare_pods", "selector"):
        if not terms.drain and key in entry:
            yield key, "requires drain = true"
    if "exclude_wait" in entry and not terms.excludes:
        yield "exclude_wait", "requires exclude = true"
    if "force_lead" in entry and not (terms.drain and terms.force):
        yield "force_lead", "requires force = true"
    if not (terms.drain or terms.marks):
        yield "", "it does nothing: enable cordon, taint, drain or condition"
