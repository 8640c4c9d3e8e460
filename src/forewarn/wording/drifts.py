"""Texts for the differences between two plans of a campaign.

They do not load the planner.
"""

from collections.abc import Sequence

from forewarn.campaigns.plan_drift import PlanDrift
from forewarn.texts import count

HOSTS_NAMED_MAX = 5
"""Maximum hosts that a sentence names; the values have more."""


def drift(found: PlanDrift) -> str:
    """Return what has changed between two plans: `1 host is gone (h7), 8 more VMs`."""
    parts: list[str] = []
    if found.has_other_file:
        parts.append("the campaign file was changed")
    if found.gone_count:
        parts.append(f"{_hosts(found.gone, found.gone_count)} gone")
    if found.new_count:
        parts.append(f"{_hosts(found.new, found.new_count)} new")
    if found.moved_count:
        parts.append(f"the order of {count(found.moved_count, 'host')} is another")
    more = found.vms_after - found.vms_before
    if more:
        word = "more" if more > 0 else "fewer"
        parts.append(f"{count(abs(more), f'{word} VM')}")
    if found.has_other_limits:
        parts.append("budgets, stages or refused hosts are others")
    return "; ".join(parts) or "what the hosts can do, or the settings, was changed"


def _hosts(names: Sequence[str], number: int) -> str:
    """Return some hosts with their number, and a verb: `2 hosts (h1, h2) are`."""
    shown = ", ".join(names[:HOSTS_NAMED_MAX])
    if number > HOSTS_NAMED_MAX:
        shown = f"{shown}, …"
    return f"{count(number, 'host')} ({shown}) {'is' if number == 1 else 'are'}"
