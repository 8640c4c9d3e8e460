"""Which rule decides about an event: the first whose conditions all hold. Pure."""

from __future__ import annotations

import zlib
from dataclasses import fields
from fnmatch import fnmatchcase
from functools import cache
from typing import cast

from forewarn.agent.core.model import Task
from forewarn.agent.core.policy import Approve, Approver, Handler, Policy, Rule
from forewarn.instants import Micros
from forewarn.protocol.notices import SCHEDULED, STARTED

SHORT_FREEZE_SECONDS = 8
"""The longest pause that is approved at once: `0 <= duration < 9` (clause 8.4)."""

OBSERVER = Rule(name="observe", approve=Approve.NEVER)
"""The one rule of an agent that only tells."""

NO_RULE = Rule(name="", approve=Approve.NEVER)
"""What holds for an event that no rule matches: it is told, and no more."""

UNSAFE_UNPREPARED = frozenset({"Preempt", "Terminate"})
"""Types of which nothing is left afterwards: never approved unprepared."""


def rule_for(policy: Policy, task: Task, now: Micros) -> Rule:
    """Return the rule that decides about the task at this instant."""
    if policy.is_observer:
        return OBSERVER
    return next((rule for rule in policy.rules if matches(rule, task, now)), NO_RULE)


def rule_kept(policy: Policy, task: Task, now: Micros) -> Rule:
    """Return the rule that decided when preparation began.

    It is known by what it says: `rule 1` may be another one since the settings were
    edited. Where it is gone, the task is matched anew.
    """
    if policy.is_observer:
        return OBSERVER
    same = (rule for rule in policy.rules if sum_of(rule) == task.rule_sum)
    return next(same, None) or rule_for(policy, task, now)


@cache
def sum_of(rule: Rule) -> int:
    """Return a number that tells a rule from any other, whatever it is called."""
    said: list[tuple[str, object]] = []
    for field in fields(rule):
        value: object = getattr(rule, field.name)
        # A condition that a later version adds must not make another rule of it.
        if field.name == "name" or value == field.default:
            continue
        if isinstance(value, frozenset):
            value = sorted(cast("frozenset[str]", value))
        said.append((field.name, value))
    return zlib.crc32(repr(said).encode()) or 1


def matches(rule: Rule, task: Task, now: Micros) -> bool:
    """Tell whether every condition of the rule holds."""
    notice = task.notice
    lead = None if notice.not_before is None else notice.not_before - now
    status = STARTED if notice.has_started else SCHEDULED
    return (
        rule.mine is task.mine
        and (not rule.types or notice.event_type in rule.types)
        and (not rule.statuses or status in rule.statuses)
        and (not rule.sources or notice.source in rule.sources)
        and _is_long_enough(rule.min_duration, notice.duration_seconds)
        and _is_short_enough(rule.max_duration, notice.duration_seconds)
        and _describes(rule.description, notice.description)
        and (rule.min_lead is None or (lead is not None and lead >= rule.min_lead))
        and (rule.max_lead is None or (lead or 0) <= rule.max_lead)
        and (rule.min_resources is None or len(notice.resources) >= rule.min_resources)
        and (rule.max_resources is None or len(notice.resources) <= rule.max_resources)
    )


def _is_long_enough(least: int | None, seconds: int) -> bool:
    # An interruption of unknown length counts as longer than any (clause 8.4).
    return least is None or seconds < 0 or seconds >= least


def _is_short_enough(most: int | None, seconds: int) -> bool:
    return most is None or 0 <= seconds <= most


def _describes(glob: str, description: str) -> bool:
    # Brackets stand for themselves: a description may have them.
    pattern = glob.casefold().replace("[", "[[]")
    return not glob or fnmatchcase(description.casefold(), pattern)


def next_change(policy: Policy, task: Task, now: Micros) -> Micros | None:
    """Return when another rule may match, since NotBefore has come nearer."""
    if task.notice.not_before is None:
        return None
    edges = [
        task.notice.not_before - lead + past
        for rule in policy.rules
        for lead, past in ((rule.min_lead, 1), (rule.max_lead, 0))
        if lead is not None
    ]
    return min((edge for edge in edges if edge > now), default=None)


def default_rules(
    handlers: tuple[Handler, ...], *, has_peers: bool = False
) -> tuple[Rule, ...]:
    """Return the documented policy (clause 8.4), for settings that have no rule.

    Started is logged; short freezes and what users ordered are approved, everything
    else is not. Where there are handlers, preparation comes first, whatever the event
    is: they run one after the other, and what was prepared is approved. One approval
    covers all VMs of an event (clause 3.4), so that of several is approved when its
    peers say that all are prepared, and is left to NotBefore where nobody asks them.
    Who would rather not be disturbed by a short freeze writes a rule.
    """
    groups = tuple((handler.name,) for handler in handlers)
    started = Rule(
        name="default: Started", statuses=frozenset({STARTED}), approve=Approve.NEVER
    )
    if groups:
        return (
            started,
            Rule(name="default: prepare", max_resources=1, groups=groups),
            Rule(
                name="default: of several VMs",
                groups=groups,
                approve=Approve.PREPARED if has_peers else Approve.NEVER,
                approver=Approver.ALL,
            ),
        )
    return (
        started,
        Rule(
            name="default: short Freeze",
            types=frozenset({"Freeze"}),
            max_duration=SHORT_FREEZE_SECONDS,
            approve=Approve.AT_ONCE,
        ),
        Rule(
            name="default: User",
            sources=frozenset({"User"}),
            approve=Approve.AT_ONCE,
        ),
        Rule(name="default: log", approve=Approve.NEVER),
    )
