"""The hosts to which the simulated driver moves VMs, if a call lets it choose."""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from forewarn.drivers.port import Verdict
from forewarn.drivers.tasks import Task
from forewarn.protocol.operations import MOVING_ACTIONS


class Targets:
    """Hosts that take VMs in turn."""

    def __init__(self, hosts: Sequence[str]) -> None:
        """Begin with the first host."""
        self._hosts = deque(hosts)
        """The host whose turn is next comes first."""

    def choose(self, task: Task) -> Task:
        """Return the task with a host for each VM whose host the driver chooses."""
        call, chosen = task.call, dict(task.chosen)
        if call.action not in MOVING_ACTIONS or task.verdict is not Verdict.DONE:
            return task
        for vm in call.vms:
            if not vm.to_host and not chosen.get(vm.vm):
                host = self._next(call.host)
                if not host:
                    reason = f"no host can take {vm.vm}"
                    return replace(task, verdict=Verdict.FAILED, reason=reason)
                chosen[vm.vm] = host
        return replace(task, chosen=tuple(chosen.items()))

    def _next(self, origin: str) -> str:
        """Return the next host other than `origin`; empty: there is none."""
        for _ in range(len(self._hosts)):
            host = self._hosts[0]
            self._hosts.rotate(-1)
            if host != origin:
                return host
        return ""
