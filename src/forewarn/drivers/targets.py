"""The hosts to which the simulated driver moves VMs, if a call lets it choose."""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from forewarn.drivers.port import Call, Verdict
from forewarn.drivers.tasks import Task
from forewarn.protocol.operations import MOVING_ACTIONS


class Targets:
    """Hosts that take VMs in turn."""

    def __init__(self, hosts: Sequence[str]) -> None:
        """Begin with the first host."""
        self._hosts = deque(hosts)
        """The host whose turn is next comes first."""

    def choose(self, task: Task) -> Task:
        """Return the task with a host for each VM whose host the driver chooses.

        No VM moves to a closed host. Of hosts that wait for their turn, the last one is
        used, and only if there is no other.
        """
        call, chosen = task.call, dict(task.chosen)
        if call.action not in MOVING_ACTIONS or task.verdict is not Verdict.DONE:
            return task
        for vm in call.vms:
            if not vm.to_host and not chosen.get(vm.vm):
                host = self._next(call)
                if not host:
                    reason = f"no host can take {vm.vm}"
                    return replace(task, verdict=Verdict.FAILED, reason=reason)
                chosen[vm.vm] = host
        return replace(task, chosen=tuple(chosen.items()))

    def _next(self, call: Call) -> str:
        """Return the next host that can take a VM of the call; empty: there is none."""
        turns = {host: turn for turn, host in enumerate(call.waiting)}
        fit = [host for host in self._hosts if host not in {call.host, *call.closed}]
        if not fit:
            return ""
        target = max(fit, key=lambda host: turns.get(host, len(turns)))
        self._hosts.rotate(-self._hosts.index(target) - 1)
        return target
