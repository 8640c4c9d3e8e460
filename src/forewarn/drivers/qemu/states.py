"""The meaning of QEMU's run states, and the whereabouts of a VM from all hosts. Pure.

While a VM migrates, it has two processes: the destination waits, and then the source.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from forewarn.drivers.port import StopCause
from forewarn.protocol.enumerations import Enumeration


class Presence(Enumeration):
    """Whether a VM is in a process."""

    HERE = "here"
    """It runs, or is paused."""
    ELSEWHERE = "elsewhere"
    """The process waits for it, or has given it away."""
    DOWN = "down"
    """It does not run: it needs a restart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessState:
    """The state of one process of a VM."""

    presence: Presence
    cause: StopCause = StopCause.FAILED
    """With DOWN: why it does not run."""
    text: str = ""
    """With DOWN: text for an operator."""


HERE, ELSEWHERE = (
    ProcessState(presence=Presence.HERE),
    ProcessState(presence=Presence.ELSEWHERE),
)

_WAITS = frozenset({"inmigrate", "prelaunch", "postmigrate"})
"""The states of a process that has no VM, or not any more."""

_BROKEN: Mapping[str, str] = {
    "guest-panicked": "the guest has crashed",
    "internal-error": "QEMU has an internal error",
    "io-error": "QEMU stopped the guest because of an error of a disk",
    "watchdog": "the watchdog stopped the guest",
}


def process_state(status: str) -> ProcessState:
    """Return the meaning of a run state."""
    if status == "shutdown":
        return ProcessState(
            presence=Presence.DOWN,
            cause=StopCause.SHUT_DOWN,
            text="the guest was shut down from inside",
        )
    if status in _BROKEN:
        return ProcessState(presence=Presence.DOWN, text=_BROKEN[status])
    return ELSEWHERE if status in _WAITS else HERE


def state_at_end(reason: str | None) -> ProcessState:
    """Return the state after the end of a process.

    `reason` is that of its event SHUTDOWN; None: it ended without this event.
    """
    if reason == "guest-shutdown":
        return process_state("shutdown")
    text = "QEMU was killed or has crashed"
    if reason is not None:
        text = f"QEMU was ended ({reason})"
    return ProcessState(presence=Presence.DOWN, text=text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Whereabouts:
    """The host of a VM; `running` is None if it is unknown whether it runs."""

    running: bool | None
    host: str = ""
    seen: ProcessState = ELSEWHERE


def whereabouts(
    states: Mapping[str, ProcessState], *, unknown: Collection[str] = ()
) -> Whereabouts:
    """Return where a VM is, from its processes by host.

    `unknown` has the hosts whose processes did not tell.
    """
    for host, state in states.items():
        if state.presence is Presence.HERE:
            return Whereabouts(running=True, host=host, seen=state)
    if unknown:
        return Whereabouts(running=None)
    for host, state in states.items():
        if state.presence is Presence.DOWN:
            return Whereabouts(running=False, host=host, seen=state)
    return Whereabouts(running=None)


@dataclass(slots=True)
class Sightings:
    """The last states of all processes, and the last news of each VM."""

    _found: dict[str, dict[str, ProcessState]] = field(
        default_factory=dict[str, dict[str, ProcessState]]
    )
    _told: dict[str, Whereabouts] = field(default_factory=dict[str, Whereabouts])

    def note(self, vm: str, host: str, state: ProcessState) -> Whereabouts | None:
        """Note the state of a process; return what is new about its VM, if anything."""
        processes = self._found.setdefault(vm, {})
        # The newest end explains why a VM does not run.
        processes.pop(host, None)
        self._found[vm] = {host: state, **processes}
        return self._news(vm)

    def forget(self, vm: str, host: str) -> None:
        """Forget a process that had no VM, or not any more."""
        self._found.get(vm, {}).pop(host, None)

    def state_of(self, vm: str, host: str) -> ProcessState | None:
        """Return the last state of a process."""
        return self._found.get(vm, {}).get(host)

    def _news(self, vm: str) -> Whereabouts | None:
        now = whereabouts(self._found[vm])
        before = self._told.get(vm)
        if now.running is None or now == before:
            return None
        self._told[vm] = now
        return now
