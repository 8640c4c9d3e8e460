"""The names of the pods on this VM's node, for a webhook.

The list is informative. If it cannot be read, the request is sent without it, and the
result of the handler says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from forewarn.agent.handlers.port import Ground
from forewarn.agent.handlers.run_context import RunContext, context_for
from forewarn.agent.integrations.kubernetes.access import find, usual_node, warnings
from forewarn.agent.integrations.kubernetes.answers import pods_on
from forewarn.agent.integrations.kubernetes.pods import EVICT, Fate, pod_of
from forewarn.agent.settings_model import HandlerSettings

LIST_SECONDS = 3.0
"""Maximum seconds for the list: the request itself is more important."""

PODS_MAX = 500
"""Maximum number of names; the kubelet's limit is 110, or 250 in most clouds."""


class PodList:
    """Reads the pods of one node from the API server."""

    def __init__(self, settings: HandlerSettings, ground: Ground) -> None:
        """Store the settings; nothing is contacted."""
        self._node = settings.pods_node or usual_node(ground.environment)
        self._kubeconfig = settings.pods_kubeconfig
        self._environment = ground.environment
        self._clock = ground.clock

    def names(self, context: RunContext) -> Sequence[str]:
        """Return `namespace/name` of each pod with a workload; raises HandlerError.

        Pods of a DaemonSet, static pods and finished pods are left out.
        """
        limited = context_for(min(LIST_SECONDS, context.remaining()), self._clock)
        with context.on_stop(lambda: limited.stop(self._clock.now())):
            return self._listed(limited)

    def faults(self, context: RunContext) -> Iterator[str]:
        """Yield warnings; raises HandlerError if the list cannot be read."""
        yield from warnings(self._kubeconfig)
        self._listed(context)

    def _listed(self, context: RunContext) -> Sequence[str]:
        api = find(self._kubeconfig, self._environment).api(self._clock)
        items, _ = pods_on(api, self._node, {}, context, again=False)
        pods = [pod_of(item, empty_dir=EVICT, bare=EVICT) for item in items]
        return sorted(str(pod) for pod in pods if pod.fate is Fate.EVICT)[:PODS_MAX]
