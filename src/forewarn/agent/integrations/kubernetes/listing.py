"""Names the pods of this VM's node, for a webhook that tells of them.

The list is a note for people. Who cannot have it is told why, and the request that it
was for is sent all the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from forewarn.agent.handlers.port import Ground
from forewarn.agent.handlers.run_context import RunContext, context_for
from forewarn.agent.integrations.kubernetes.access import find, usual_node, warnings
from forewarn.agent.integrations.kubernetes.answers import pods_on
from forewarn.agent.integrations.kubernetes.pods import Care, Fate, pod_of
from forewarn.agent.settings_model import HandlerSettings

LIST_SECONDS = 3.0
"""For the list: what it is for is worth more than it. A Preempt leaves 30 s."""

PODS_MAX = 500
"""Pods that are named; the kubelet's own limit is 110, or 250 in most clouds."""


class PodList:
    """Asks the API server for the pods of one node."""

    def __init__(self, settings: HandlerSettings, ground: Ground) -> None:
        """Ask nobody yet."""
        self._node = settings.pods_node or usual_node(ground.environment)
        self._kubeconfig = settings.pods_kubeconfig
        self._environment = ground.environment
        self._clock = ground.clock

    def names(self, context: RunContext) -> Sequence[str]:
        """Return `namespace/name` of each pod that work runs in; raises HandlerError.

        Those of a DaemonSet, static ones and finished ones are left out.
        """
        limited = context_for(min(LIST_SECONDS, context.remaining()), self._clock)
        with context.on_stop(lambda: limited.stop(self._clock.now())):
            return self._listed(limited)

    def faults(self, context: RunContext) -> Sequence[str]:
        """Return what is careless; raises HandlerError where no list can be had."""
        found = warnings(self._kubeconfig)
        self._listed(context)
        return found

    def _listed(self, context: RunContext) -> Sequence[str]:
        api = find(self._kubeconfig, self._environment).api(self._clock)
        found, _ = pods_on(api, self._node, {}, context, again=False)
        pods = [pod_of(each, empty_dir=Care.EVICT, bare=Care.EVICT) for each in found]
        names = sorted(str(pod) for pod in pods if pod.fate is Fate.EVICT)
        return names[:PODS_MAX]
