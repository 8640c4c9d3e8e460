"""The meaning of QEMU's run states, and the whereabouts of a VM from all hosts. Pure.

While a VM migrates, it has two processes: the destination waits, and then the source.
"""

import enum
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from forewarn.drivers.port import StopCause


class Presence(enum.Enum):
    """Whether a VM is in a process."""

    HERE = "here"
    """It runs, or is paused."""
    ELSEWHERE = "elsewhere"
    """The process waits for it, or has given it away."""
    DOWN = "down"
    """It does not run: it needs a restart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The state of one process of a VM."""

    presence: Presence
    cause: StopCause = StopCause.FAILED
    """With DOWN: why it does not run."""
    text: str = ""
    """With DOWN: text for an operator."""


HERE, ELSEWHERE = Seen(presence=Presence.HERE), Seen(presence=Presence.ELSEWHERE)

_WAITS = frozenset({"inmigrate", "prelaunch", "postmigrate"})
"""The states of a process that has no VM, or not any more."""

_BROKEN: Mapping[str, str] = {
    "guest-panicked": "the guest has crashed",
    "internal-error": "QEMU has an internal error",
    "io-error": "QEMU stopped the guest because of an error of a disk",
    "watchdog": "the watchdog stopped the guest",
}


def seen_in(status: str) -> Seen:
    """Return the meaning of a run state."""
    if status == "shutdown":
        return Seen(
            presence=Presence.DOWN,
            cause=StopCause.SHUT_DOWN,
            text="the guest was shut down from inside",
        )
    if status in _BROKEN:
        return Seen(presence=Presence.DOWN, text=_BROKEN[status])
    return ELSEWHERE if status in _WAITS else HERE


def seen_at_end(reason: str | None) -> Seen:
    """Return the state after the end of a process.

    `reason` is that of its event SHUTDOWN; None: it ended without this event.
    """
    if reason == "guest-shutdown":
        return seen_in("shutdown")
    text = "QEMU was killed or has crashed"
    if reason is not None:
        text = f"QEMU was ended ({reason})"
    return Seen(presence=Presence.DOWN, text=text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Whereabouts:
    """Where a VM is; `running` is None if that is unknown."""

    running: bool | None
    host: str = ""
    seen: Seen = ELSEWHERE


def whereabouts(
    found: Mapping[str, Seen], *, unknown: Collection[str] = ()
) -> Whereabouts:
    """Return where a VM is, from its processes by host.

    `unknown` has the hosts whose processes did not tell.
    """
    for host, seen in found.items():
        if seen.presence is Presence.HERE:
            return Whereabouts(running=True, host=host, seen=seen)
    if unknown:
        return Whereabouts(running=None)
    for host, seen in found.items():
        if seen.presence is Presence.DOWN:
            return Whereabouts(running=False, host=host, seen=seen)
    return Whereabouts(running=None)


@dataclass(slots=True)
class Sightings:
    """The last states of all processes, and the last news of each VM."""

    _found: dict[str, dict[str, Seen]] = field(
        default_factory=dict[str, dict[str, Seen]]
    )
    _told: dict[str, Whereabouts] = field(default_factory=dict[str, Whereabouts])

    def note(self, vm: str, host: str, seen: Seen) -> Whereabouts | None:
        """Note the state of a process; return what is new about its VM, if anything."""
        processes = self._found.setdefault(vm, {})
        # The newest end explains why a VM does not run.
        processes.pop(host, None)
        self._found[vm] = {host: seen, **processes}
        return self._news(vm)

    def forget(self, vm: str, host: str) -> None:
        """Forget a process that had no VM, or not any more."""
        self._found.get(vm, {}).pop(host, None)

    def state_of(self, vm: str, host: str) -> Seen | None:
        """Return the last state of a process."""
        return self._found.get(vm, {}).get(host)

    def _news(self, vm: str) -> Whereabouts | None:
        now = whereabouts(self._found[vm])
        before = self._told.get(vm)
        if now.running is None or now == before:
            return None
        self._told[vm] = now
        return now
