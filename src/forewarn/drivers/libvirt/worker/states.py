"""The meaning of libvirt's states and events. Pure; it needs no libvirt.

The numbers are those of libvirt's interface, which never change.
"""

from __future__ import annotations

from dataclasses import dataclass

HERE, ELSEWHERE, OFF, DOWN = "here", "elsewhere", "off", "down"
"""A domain has its VM; waits for it, or has given it away; was shut down from inside; or
does not run for another reason."""

SHUT_DOWN_TEXT = "the guest was shut down from inside"
STOPPED_TEXT = "it stopped while there was no connection to libvirt"


@dataclass(frozen=True)
class GuestState:
    """The state of one domain."""

    presence: str
    text: str = ""
    """With OFF and DOWN: why it does not run."""
    is_known: bool = True
    """With DOWN: whether libvirt knows a reason. It forgets the reasons of domains that do
    not run when it is restarted."""

    @property
    def cause(self) -> str:
        """Return the cause in the line about a VM that does not run."""
        if self.presence == OFF:
            return "shut-down"
        return "failed" if self.is_known else "unknown"


RUNS_HERE, RUNS_ELSEWHERE = GuestState(HERE), GuestState(ELSEWHERE)
SHUT_DOWN_BY_USER = GuestState(OFF, SHUT_DOWN_TEXT)

PAUSED_STATE, SHUTTING_STATE, OFF_STATE, CRASHED_STATE = 3, 4, 5, 6
"""virDomainState; the others are states of a VM that runs."""

_PAUSED: dict[int, GuestState] = {
    2: RUNS_ELSEWHERE,
    5: GuestState(DOWN, "QEMU stopped the guest because of an error of a disk"),
    6: GuestState(DOWN, "the watchdog stopped the guest"),
    10: GuestState(DOWN, "the guest has crashed"),
    11: RUNS_ELSEWHERE,
    13: GuestState(DOWN, "its live migration failed after the guest had moved"),
}
"""virDomainPausedReason, without those of a VM that is only paused."""

USER_PAUSED = 1
"""VIR_DOMAIN_PAUSED_USER: it was paused through the API."""

QEMU_GONE = GuestState(DOWN, "QEMU was killed or has crashed")
"""libvirt calls the same end a crash in the state of the domain, and a failure in its
event."""

OFF_BY_GUEST, OFF_SAVED = 1, 5
_OFF: dict[int, GuestState] = {
    0: GuestState(DOWN, "it does not run", is_known=False),
    OFF_BY_GUEST: SHUT_DOWN_BY_USER,
    2: GuestState(DOWN, "its domain was destroyed"),
    3: QEMU_GONE,
    4: RUNS_ELSEWHERE,
    OFF_SAVED: RUNS_ELSEWHERE,
    6: QEMU_GONE,
    7: RUNS_ELSEWHERE,
    8: GuestState(DOWN, "it does not run", is_known=False),
}
"""virDomainShutoffReason. An operator who saves a domain or takes a snapshot knows of it."""


def guest_state(state: int, reason: int) -> GuestState:
    """Return the meaning of the state of a domain."""
    if state == PAUSED_STATE:
        return _PAUSED.get(reason, RUNS_HERE)
    if state == SHUTTING_STATE:
        return RUNS_ELSEWHERE
    if state == OFF_STATE:
        return _OFF.get(reason, GuestState(DOWN, "it does not run", is_known=False))
    if state == CRASHED_STATE:
        return GuestState(DOWN, "the guest has crashed")
    return RUNS_HERE


DEFINED, UNDEFINED, STARTED, SUSPENDED, RESUMED, STOPPED, SHUTDOWN = range(7)
"""virDomainEventType."""
CRASHED = 8

RENAMED = 1
"""VIR_DOMAIN_EVENT_UNDEFINED_RENAMED."""

SHUT_DOWN_BY_HOST = 2
"""VIR_DOMAIN_EVENT_SHUTDOWN_HOST: QEMU got a signal."""

STARTED_BY_MIGRATION = 1
"""VIR_DOMAIN_EVENT_STARTED_MIGRATED: the domain waits for the memory of its guest."""

_SUSPENDED: dict[int, GuestState] = {2: _PAUSED[5], 3: _PAUSED[6], 8: _PAUSED[13]}
_STOPPED: dict[int, GuestState] = {
    0: SHUT_DOWN_BY_USER,
    1: _OFF[2],
    2: _OFF[3],
    3: RUNS_ELSEWHERE,
    4: RUNS_ELSEWHERE,
    5: _OFF[6],
    6: RUNS_ELSEWHERE,
}


def state_after_event(event: int, detail: int) -> GuestState | None:
    """Return the state of a domain after a lifecycle event; None: as before."""
    if event == STARTED:
        return RUNS_ELSEWHERE if detail == STARTED_BY_MIGRATION else RUNS_HERE
    if event == RESUMED:
        return RUNS_HERE
    if event == SUSPENDED:
        return _SUSPENDED.get(detail)
    if event == STOPPED:
        return _STOPPED.get(detail, RUNS_ELSEWHERE)
    if event == CRASHED:
        return GuestState(DOWN, "the guest has crashed")
    return None


class Memory:
    """The last states of the domains of one host, and the news about them."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._states: dict[str, GuestState] = {}
        self._by_host: set[str] = set()
        """Domains whose QEMU got a signal and has not ended yet."""

    def list(self, states: dict[str, GuestState]) -> dict[str, GuestState]:
        """Note all domains of the host; return the news.

        A domain that is not there any more can be on another host, so it is not mentioned.
        One that was off before the first look is news without a known reason: it can have
        lost its host while no worker ran.
        """
        before, self._states = self._states, {}
        self._by_host.clear()
        for vm, state in states.items():
            known = before.get(vm)
            if state.presence == DOWN and not state.is_known and known is not None:
                has_run = known.presence == HERE
                self._states[vm] = GuestState(DOWN, STOPPED_TEXT) if has_run else known
            else:
                self._states[vm] = state
        return {
            vm: state
            for vm, state in self._states.items()
            if state.presence != ELSEWHERE and state != before.get(vm)
        }

    def observe(self, vm: str, event: int, detail: int) -> GuestState | None:
        """Note an event; return the news, if it is some."""
        if event == SHUTDOWN and detail == SHUT_DOWN_BY_HOST:
            self._by_host.add(vm)
        state = state_after_event(event, detail)
        if event == UNDEFINED:
            return self._undefined(vm, detail)
        if state is None:
            return None
        if state == SHUT_DOWN_BY_USER and vm in self._by_host:
            state = GuestState(DOWN, "QEMU was ended by a signal")
        if event in {STARTED, STOPPED}:
            self._by_host.discard(vm)
        before = self._states.get(vm)
        self._states[vm] = state
        return state if state.presence != ELSEWHERE and state != before else None

    def _undefined(self, vm: str, detail: int) -> GuestState | None:
        before = self._states.get(vm)
        if before is None or before.presence not in {OFF, DOWN}:
            # A running domain continues to run; one that has moved is undefined as usual.
            return None
        how = "renamed" if detail == RENAMED else "undefined"
        # Its user or an operator stopped it before, and the reason stays.
        self._states[vm] = GuestState(
            before.presence, f"{before.text}; its domain was {how}"
        )
        return self._states[vm]
