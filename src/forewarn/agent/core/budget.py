"""Calculate how long each handler may take before NotBefore. Pure.

Preparation ends a margin before NotBefore. Normally the groups of a rule share the
time: a group that needs less than an equal share gets what it needs, the others share
the rest equally, and unused time goes to the next group. A Preempt, or an event whose
impact can begin at any moment, is urgent. Then there is no sharing: the handlers of
highest priority get all the time, then the next.
"""

from __future__ import annotations

from collections.abc import Sequence

from forewarn.agent.core.model import Task
from forewarn.agent.core.policy import Handler, Policy, Rule
from forewarn.instants import MILLISECOND, Micros

GRACE_SHARE = 5
"""Divisor of a handler's time: at most this part of it is reserved to stop the
handler."""

HURRIED_GRACE_SHARE = 25
"""`GRACE_SHARE` for urgent events, where the VM may be gone before a handler is
stopped. Of a Preempt's 30 s, handlers get 24 s even if the first polls failed."""

NEAR_MARGINS = 2
"""If NotBefore is at most this many margins away when preparation begins, it counts as
passed. Otherwise the handlers would get less time than the margin."""

LEAST = 100 * MILLISECOND
"""Minimum time for a handler: with less, no process is started."""


def begin_at(task: Task, rule: Rule) -> Micros | None:
    """Return when preparation begins; None: at once."""
    return _at(task, rule.start_before)


def handler_at(task: Task, rule: Rule, handler: Handler) -> Micros | None:
    """Return when a handler may start after those before it; None: at once."""
    return _at(task, dict(rule.starts).get(handler.name))


def _at(task: Task, before: Micros | None) -> Micros | None:
    not_before = task.notice.not_before
    if (
        before is None
        or not_before is None
        or is_hurried(task)
        # The impact can begin at any moment after the approval.
        or task.is_forced
    ):
        return None
    return not_before - before


def is_hurried(task: Task) -> bool:
    """Return whether the event is urgent, so that handlers run by priority."""
    return task.notice.event_type == "Preempt" or task.notice.has_started


def ready_by(task: Task, policy: Policy) -> Micros | None:
    """Return when preparation must have ended; None: there is no such time.

    The impact can begin at any moment if NotBefore has passed, or if an urgent event
    has no NotBefore. Preparation then ends `urgent_time` after that was first known.
    """
    not_before = task.notice.not_before
    if task.notice.has_started:
        return (task.started or task.seen) + policy.urgent_time
    known = task.begun or task.seen
    if not_before is None:
        return known + policy.urgent_time if is_hurried(task) else None
    if not_before - known <= NEAR_MARGINS * policy.margin:
        # NotBefore has passed, or almost, but the event is still Scheduled.
        return max(not_before - policy.margin, known + policy.urgent_time)
    return not_before - policy.margin


def groups_of(task: Task, rule: Rule, policy: Policy) -> list[list[Handler]]:
    """Return the handlers that prepare, in the order of their groups."""
    known = policy.by_name
    groups = [
        [known[name] for name in group if name in known and known[name].prepares]
        for group in rule.groups
    ]
    if not is_hurried(task):
        return [group for group in groups if group]
    handlers = [handler for group in groups for handler in group]
    priorities = sorted({handler.priority for handler in handlers}, reverse=True)
    return [
        [handler for handler in handlers if handler.priority == priority]
        for priority in priorities
    ]


def required(task: Task, groups: Sequence[Sequence[Handler]]) -> list[str]:
    """Return the required handlers: those required at first, and those required now."""
    wanted = [handler.name for group in groups for handler in group if handler.required]
    return list(dict.fromkeys([*task.required, *wanted]))


def times(
    handler: Handler,
    remaining: Sequence[Sequence[Handler]],
    *,
    until: Micros | None,
    is_hurried: bool,
    policy: Policy,
    now: Micros,
) -> tuple[Micros, Micros] | None:
    """Return when the handler is asked to stop and when it is killed; None: no time
    left.

    `remaining` are the groups that have not ended, the handler's own first.
    """
    end = now + handler.timeout + policy.stop_grace
    if until is not None:
        left = until - now
        if left < LEAST:
            return None
        wanted = [
            max(member.timeout for member in group) + policy.stop_grace
            for group in remaining
        ]
        if not is_hurried:
            left = max(_share(left, wanted), LEAST)
        end = min(end, now + left)
    share = HURRIED_GRACE_SHARE if is_hurried else GRACE_SHARE
    grace = min(policy.stop_grace, (end - now) // share)
    return min(end - grace, now + handler.timeout), end


def _share(left: Micros, wanted: Sequence[Micros]) -> Micros:
    """Return the share of the first group in the time that is left.

    Proportional shares would leave almost nothing to a handler that needs 5 s, next to
    handlers with the default timeout.
    """
    if sum(wanted) <= left:
        return left
    even = left // len(wanted)
    if wanted[0] <= even:
        return wanted[0]
    rest = [wish for wish in wanted if wish > even]
    if len(rest) == len(wanted):
        return even
    return _share(left - sum(wanted) + sum(rest), rest)
