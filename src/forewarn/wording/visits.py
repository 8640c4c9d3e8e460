"""Sentences about visits, for operators. Pure."""

from collections import Counter
from collections.abc import Collection, Iterable

from forewarn.campaigns import commands
from forewarn.instants import Micros, describe_duration
from forewarn.problems import listed
from forewarn.protocol.notes import StepEnded
from forewarn.protocol.visits import (
    SkipReason,
    StepOutcome,
    Visit,
    VisitState,
)
from forewarn.texts import count
from forewarn.wording import operators

_SKIPPED = {
    None: "the VMs could not be moved away, paused or stopped",
    SkipReason.NOT_NEEDED: "the host did not need the work",
    SkipReason.NEEDED_FAILED: "the step needed failed",
    SkipReason.CANCELLED: "its operation was cancelled before the start",
    SkipReason.GIVEN_UP: "an operator gave it up",
    SkipReason.HALTED: "its campaign was halted or aborted before the work",
}


RESTORED_NAMED_MAX = 5
"""Maximum VMs that a command names: more do not fit into a line, and `--host` selects
them."""

NO_HOST_REBOOT = "the VMs are restarted and the host is not, because the maintenance has no step work"
"""The meaning of a reboot whose driver reboots no host."""


def standing(visit: Visit, *, now: Micros, campaign: str = "") -> str:
    """Return the state of a visit in one sentence.

    `campaign`: the name of the campaign that it belongs to, which has its own commands.
    """
    match visit.state:
        case VisitState.WAITING if visit.is_needed:
            return "the host needs the work and waits for its turn"
        case VisitState.ANNOUNCED:
            return f"operation {visit.operation} is announced and has not started"
        case VisitState.DRAINING if visit.due_at:
            return "it waits until the driver observes no VM on the host"
        case VisitState.DRAINING:
            return f"operation {visit.operation} affects the VMs of the host"
        case VisitState.ANSWERING:
            left = describe_duration(max(0, visit.give_up_at - now))
            return f"it waits until the host answers, at most {left}: {_running(visit, now)}"
        case VisitState.RESTORING:
            return f"operation {visit.operation} lets the VMs of the host run again"
        case VisitState.VERIFYING:
            return f"{_running(visit, now)}; {visit.verified} successes in a row"
        case VisitState.DONE:
            return "the work is done, and the host was opened"
        case VisitState.DEFERRED:
            return f"{_SKIPPED[visit.skipped]}, so the host was opened without work"
        case VisitState.SKIPPED:
            return f"it was skipped: {_SKIPPED[visit.skipped]}"
        case VisitState.FAILED | VisitState.UNKNOWN:
            retry = commands.retry_visit(visit.host, campaign)
            skip = commands.skip_visit(visit.host, campaign)
            return (
                f"{failure(visit)}; the host stays cordoned: run `{retry}` or `{skip}`"
            )
        case _:
            return _running(visit, now)


def why_skipped(visit: Visit) -> str:
    """Return why the host of an ended visit got no work; empty: it got it."""
    ended = visit.state in {VisitState.SKIPPED, VisitState.DEFERRED}
    return _SKIPPED[visit.skipped] if ended else ""


def waiting_vms(visit: Visit, vms: Collection[str], *, is_paused: bool) -> str:
    """Return which VMs of a failed visit are kept paused or stopped, and what ends that.

    The commands of the visit are in its standing.
    """
    are = "paused" if is_paused else "stopped"
    runs = "resume" if is_paused else "start"
    when = (
        "when the host answers"
        if visit.failed_in is VisitState.ANSWERING
        else "after the work"
    )
    return (
        f"{_counted(vms)} stay {are} ({listed(vms)}): `retry` lets them {runs} {when}, and "
        "`skip` at once"
    )


def down_vms(host: str, vms: Collection[str]) -> str:
    """Return which VMs of a failed visit are down, and how to report that they run."""
    names = " ".join(vms) if len(vms) <= RESTORED_NAMED_MAX else f"--host {host}"
    return (
        f"{_counted(vms)} of it {'is' if len(vms) == 1 else 'are'} down ({listed(vms)}): "
        f"start what does not run, then run `forewarn restore {names}`"
    )


def _counted(vms: Collection[str]) -> str:
    return count(len(vms), "VM")


def _running(visit: Visit, now: Micros) -> str:
    kind = visit.current_kind
    step = None if kind is None else visit.step(kind)
    if step is None:
        return "it continues at once"
    left = describe_duration(max(0, visit.due_at - now))
    return (
        f"step {step.kind.value} ({step.text}) runs or is next, at most {left} from now"
    )


def failure(visit: Visit) -> str:
    """Return the step in which a visit failed, with the end of its output."""
    if visit.failed_in is VisitState.RESTORING:
        return "the VMs could not be resumed or started after the work"
    result = visit.last_result
    if result is None or result.outcome is StepOutcome.DONE:
        return "a step failed"
    is_unknown = result.outcome is StepOutcome.UNKNOWN
    return operators.note(
        StepEnded(step=result.kind, is_unknown=is_unknown, end=result.end)
    )


def counted(visits: Iterable[Visit]) -> str:
    """Return how many visits are in each state; empty if there is none."""
    counts = Counter(visit.state.value.lower() for visit in visits)
    if not counts:
        return ""
    return "visits: " + ", ".join(f"{count} {state}" for state, count in counts.items())


def of_host(visit: Visit, sentence: str) -> str:
    """Return what a visit does, with its standing, in one sentence."""
    return f"visit {visit.visit_id} is {visit.state.value}: {sentence}"
