"""Expectations about the recorded requests. All code runs on the loop of the world."""

from collections.abc import Collection, Coroutine
from typing import Any

from forewarn.protocol.errors import RefusedError
from forewarn.sim.deviations import RULES
from forewarn.sim.journal import Seen
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
) -> Coroutine[Any, Any, list[Seen]]:
    """Return a coroutine that waits for more requests of a VM; empty: of any VM.

    Requests count from this call on, in any thread: the coroutine itself begins a
    moment later. It raises NotSeenError after the timeout.
    """
    return _visits(core, vm, count, seconds, last=core.journal.last)


async def _visits(
    core: AnyCore, vm: str, count: int, seconds: float, *, last: int
) -> list[Seen]:
    def since() -> list[Seen]:
        return core.journal.find(vm=vm or None, since=last)

    def come() -> list[Seen] | None:
        found = since()
        return found if len(found) >= count else None

    found = await core.until(come, seconds=seconds)
    if found is None:
        sentence = (
            f"{vm or 'all VMs'} made {len(since())} requests within {seconds:g} s; "
            f"expected {count}"
        )
        raise failure_report.failure(core, sentence, vms=[vm] if vm else [])
    return found


def judge_asked(core: AnyCore, vm: str, *, at_least: int) -> None:
    """Raise NotSeenError if the VM has received its events less often than expected."""
    found = core.requests([vm])
    had = sum(each.is_answered_poll for each in found)
    if had < at_least:
        sentence = f"{vm} polled {had} times; expected {at_least}"
        if others := len(found) - had:
            sentence += f" ({others} requests were for something else, or not answered)"
        if dropped := core.journal.dropped:
            sentence += f"; {dropped} older requests were dropped"
        raise failure_report.failure(core, sentence, vms=[vm])


def judge_no_approval(core: AnyCore, vm: str) -> None:
    """Raise NotSeenError if the VM has approved anything."""
    approved = core.journal.approvals(vm=vm)
    if approved:
        ids = [
            each[: failure_report.ID_SHOWN]
            for seen in approved
            for each in seen.approved
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
        f"{seen.vm or 'an unknown caller'}: {deviation}"
        for seen, deviation in core.journal.deviations()
        if deviation.name not in but
    ]


def judge_deviations(core: AnyCore, *, but: Collection[str] = ()) -> None:
    """Raise NotSeenError if a client deviated from the protocol."""
    found = [*dict.fromkeys(deviations(core, but=but))]
    if not found:
        return
    lines = found[:DEVIATIONS_SHOWN]
    if len(found) > DEVIATIONS_SHOWN:
        lines.append(f"and {len(found) - DEVIATIONS_SHOWN} more")
    sentence = "\n  ".join(["clients deviated from the protocol:", *lines])
    vms = [*dict.fromkeys(seen.vm for seen, _ in core.journal.deviations())]
    raise failure_report.failure(core, sentence, vms=vms)
