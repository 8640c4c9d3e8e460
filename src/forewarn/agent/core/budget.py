"""How long each handler may take: everything ends a margin before NotBefore. Pure.

Usually the groups of a rule share what is left: who asked for little has it, the
others get the same each, and what one leaves goes to the next. In a hurry, which is a
Preempt or an event whose impact may come at any moment, there is no sharing: the
handlers of highest priority get all that is left, then the next.
"""

from __future__ import annotations

from collections.abc import Sequence

from forewarn.agent.core.model import Task
from forewarn.agent.core.policy import Handler, Policy, Rule
from forewarn.instants import MILLISECOND, Micros

GRACE_SHARE = 5
"""Of what a handler gets, at most one part in so many is for its forced end."""

HURRIED_GRACE_SHARE = 25
"""The same in a hurry, where the VM may be gone before an end could be forced: of a
Preempt's 30 s, 24 s stay with the handlers even when its first polls failed."""

NEAR_MARGINS = 2
"""A NotBefore that is only so many margins away when preparation begins leaves less to
the handlers than to the margin: it counts as passed."""

LEAST = 100 * MILLISECOND
"""With less than this left, a process is not begun any more."""


def begin_at(task: Task, rule: Rule) -> Micros | None:
    """Return when preparation is to begin; None: at once."""
    return _at(task, rule.start_before)


def handler_at(task: Task, rule: Rule, handler: Handler) -> Micros | None:
    """Return when a handler may begin, once those before it have ended.

    None: at once.
    """
    return _at(task, dict(rule.starts).get(handler.name))


def _at(task: Task, before: Micros | None) -> Micros | None:
    not_before = task.notice.not_before
    if (
        before is None
        or not_before is None
        or is_hurried(task)
        # The impact may come at any moment after this.
        or task.is_forced
    ):
        return None
    return not_before - before


def is_hurried(task: Task) -> bool:
    """Tell whether what can be done must be done in the order of its worth."""
    return task.notice.event_type == "Preempt" or task.notice.has_started


def ready_by(task: Task, policy: Policy) -> Micros | None:
    """Return when preparation must have ended; None: there is no such time.

    Where NotBefore has passed, and where one that is in a hurry does not tell it, the
    impact may come at any moment: it is the `urgent_time` after that was first known.
    """
    not_before = task.notice.not_before
    if task.notice.has_started:
        return (task.started or task.seen) + policy.urgent_time
    known = task.begun or task.seen
    if not_before is None:
        return known + policy.urgent_time if is_hurried(task) else None
    if not_before - known <= NEAR_MARGINS * policy.margin:
        # It has passed, or nearly, and the event is Scheduled nevertheless.
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
    """Return who must have prepared: by what decided at first, and by the rule now."""
    wanted = [each.name for group in groups for each in group if each.required]
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
    """Return when the handler is asked to stop, and when killed; None: no time.

    `remaining` are the groups that have not ended, its own first.
    """
    end = now + handler.timeout + policy.stop_grace
    if until is not None:
        left = until - now
        if left < LEAST:
            return None
        wanted = [
            max(each.timeout for each in group) + policy.stop_grace
            for group in remaining
        ]
        if not is_hurried:
            left = max(_share(left, wanted), LEAST)
        end = min(end, now + left)
    share = HURRIED_GRACE_SHARE if is_hurried else GRACE_SHARE
    grace = min(policy.stop_grace, (end - now) // share)
    return min(end - grace, now + handler.timeout), end


def _share(left: Micros, wanted: Sequence[Micros]) -> Micros:
    """Return what the first of these gets of what is left.

    In proportion to the wishes, a handler that knows that it needs 5 s would have next
    to nothing beside those that were never given a time.
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
