"""Expectations about the recorded requests. All code runs on the loop of the world."""

from collections.abc import Collection, Coroutine
from typing import Any

from forewarn.protocol.errors import RefusedError
from forewarn.sim.deviations import RULES
from forewarn.sim.journal import JournalEntry
from forewarn.testing.kit import failure_report
from forewarn.testing.kit.core import AnyCore
from forewarn.testing.kit.forms import unknown

__tracebackhide__ = True
"""pytest shows the line of the test that failed, and no line of this module."""

DEVIATIONS_SHOWN = 8
"""Maximum number of deviations in one failure: a poller repeats its deviation with each
request."""


def visits(
    core: AnyCore, vm: str, count: int, seconds: float
) -> Coroutine[Any, Any, list[JournalEntry]]:
    """Return a coroutine that waits for more requests of a VM; empty: of any VM.

    Requests count from this call on, in any thread: the coroutine itself begins a
    moment later. It raises NotSeenError after the timeout.
    """
    return _visits(core, vm, count, seconds, last=core.journal.last)


async def _visits(
    core: AnyCore, vm: str, count: int, seconds: float, *, last: int
) -> list[JournalEntry]:
    def since() -> list[JournalEntry]:
        return core.journal.find(vm=vm or None, since=last)

    def come() -> list[JournalEntry] | None:
        entries = since()
        return entries if len(entries) >= count else None

    entries = await core.until(come, seconds=seconds)
    if entries is None:
        sentence = (
            f"{vm or 'all VMs'} made {len(since())} requests within {seconds:g} s; "
            f"expected {count}"
        )
        raise failure_report.failure(core, sentence, vms=[vm] if vm else [])
    return entries


def judge_asked(core: AnyCore, vm: str, *, at_least: int) -> None:
    """Raise NotSeenError if the VM has received its events less often than expected."""
    entries = core.requests([vm])
    had = sum(entry.is_answered_poll for entry in entries)
    if had < at_least:
        sentence = f"{vm} polled {had} times; expected {at_least}"
        if others := len(entries) - had:
            sentence += f" ({others} requests were for something else, or not answered)"
        if dropped := core.journal.dropped:
            sentence += f"; {dropped} older requests were dropped"
        raise failure_report.failure(core, sentence, vms=[vm])


def judge_no_approval(core: AnyCore, vm: str) -> None:
    """Raise NotSeenError if the VM has approved anything."""
    approved = core.journal.approvals(vm=vm)
    if approved:
        ids = [
            event_id[: failure_report.ID_SHOWN]
            for entry in approved
            for event_id in entry.approved
        ]
        sentence = f"{vm} approved {', '.join(ids)}; expected nothing"
        raise failure_report.failure(core, sentence, vms=[vm])


def rules_named(but: str | Collection[str]) -> Collection[str]:
    """Return one or several names of rules; raises NotFoundError for unknown ones."""
    names = [but] if isinstance(but, str) else but
    for name in names:
        if name not in RULES:
            raise unknown("rule", name, RULES)
    return names


def rules_spared(but: str | Collection[str], profile: str) -> Collection[str]:
    """Return the rules that a world ignores; raises RefusedError if none applies."""
    if but and profile != "strict":
        raise RefusedError(
            "but has no effect without the profile strict",
            hint="Use profile='strict'.",
        )
    return rules_named(but)


def deviations(core: AnyCore, *, but: Collection[str] = ()) -> list[str]:
    """Return the deviations of clients from the protocol, as text.

    Rules in `but` do not count.
    """
    return [
        f"{entry.vm or 'an unknown caller'}: {deviation}"
        for entry, deviation in core.journal.deviations()
        if deviation.name not in but
    ]


def judge_deviations(core: AnyCore, *, but: Collection[str] = ()) -> None:
    """Raise NotSeenError if a client deviated from the protocol."""
    lines_all = [*dict.fromkeys(deviations(core, but=but))]
    if not lines_all:
        return
    lines = lines_all[:DEVIATIONS_SHOWN]
    if len(lines_all) > DEVIATIONS_SHOWN:
        lines.append(f"and {len(lines_all) - DEVIATIONS_SHOWN} more")
    sentence = "\n  ".join(["clients deviated from the protocol:", *lines])
    vms = [*dict.fromkeys(entry.vm for entry, _ in core.journal.deviations())]
    raise failure_report.failure(core, sentence, vms=vms)
