"""Find the rule for an event: the first one whose conditions all hold. Pure."""

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
"""The only rule of an agent that observes."""

NO_RULE = Rule(name="", approve=Approve.NEVER)
"""The rule for an event that no rule matches: it is only logged."""

UNSAFE_UNPREPARED = frozenset({"Preempt", "Terminate"})
"""Types that destroy the VM or its state: they are never approved unprepared."""


def rule_for(policy: Policy, task: Task, now: Micros) -> Rule:
    """Return the rule that decides about the task at this instant."""
    if policy.is_observer:
        return OBSERVER
    return next((rule for rule in policy.rules if matches(rule, task, now)), NO_RULE)


def rule_kept(policy: Policy, task: Task, now: Micros) -> Rule:
    """Return the rule that decided when preparation began.

    The rule is identified by its content, since a change of the settings can make
    another rule `rule 1`. If that rule no longer exists, the task is matched again.
    """
    if policy.is_observer:
        return OBSERVER
    same = (rule for rule in policy.rules if sum_of(rule) == task.rule_sum)
    return next(same, None) or rule_for(policy, task, now)


@cache
def sum_of(rule: Rule) -> int:
    """Return a checksum of the rule's content without its name."""
    pairs: list[tuple[str, object]] = []
    for field in fields(rule):
        value: object = getattr(rule, field.name)
        # A condition that a later version adds must not change old checksums.
        if field.name == "name" or value == field.default:
            continue
        if isinstance(value, frozenset):
            value = sorted(cast("frozenset[str]", value))
        pairs.append((field.name, value))
    return zlib.crc32(repr(pairs).encode()) or 1


def matches(rule: Rule, task: Task, now: Micros) -> bool:
    """Return whether every condition of the rule holds."""
    notice, seconds = task.notice, task.notice.duration_seconds
    lead = None if notice.not_before is None else notice.not_before - now
    status = STARTED if notice.has_started else SCHEDULED
    return (
        rule.mine is task.mine
        and (not rule.types or notice.event_type in rule.types)
        and (not rule.statuses or status in rule.statuses)
        and (not rule.sources or notice.source in rule.sources)
        # An interruption of unknown length counts as longer than any (clause 8.4).
        and (rule.min_duration is None or seconds < 0 or seconds >= rule.min_duration)
        and (rule.max_duration is None or 0 <= seconds <= rule.max_duration)
        and _describes(rule.description, notice.description)
        and (rule.min_lead is None or (lead is not None and lead >= rule.min_lead))
        and (rule.max_lead is None or (lead or 0) <= rule.max_lead)
        and (rule.min_resources is None or len(notice.resources) >= rule.min_resources)
        and (rule.max_resources is None or len(notice.resources) <= rule.max_resources)
    )


def _describes(glob: str, description: str) -> bool:
    # Brackets have no special meaning: a description may contain them.
    pattern = glob.casefold().replace("[", "[[]")
    return not glob or fnmatchcase(description.casefold(), pattern)


def next_change(policy: Policy, task: Task, now: Micros) -> Micros | None:
    """Return when another rule may match, because NotBefore is closer."""
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
    """Return the documented default policy (clause 8.4) for settings without rules.

    Started events are logged. Short freezes and events that a user requested are
    approved. All others are not. If there are handlers, they prepare for every event,
    one after the other, and prepared events are approved. One approval covers all VMs
    of an event (clause 3.4). An event of several VMs is therefore approved only if its
    peers report that all are prepared. Without peers, it is left to NotBefore. To
    exclude short freezes, write a rule.
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
