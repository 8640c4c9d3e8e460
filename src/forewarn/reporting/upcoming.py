"""The coming work on the VMs of a tenant, as JSON."""

from typing import Any, TypeAlias

from forewarn.control.redaction.upcoming import Upcoming, WhyUnknown
from forewarn.instants import format_instant
from forewarn.wording import tenants

Json: TypeAlias = dict[str, Any]


def upcoming_report(work: Upcoming) -> Json:
    """Return coming work on one VM; unknown times are null."""
    earliest, latest = work.earliest, work.latest
    return {
        "work": work.work,
        "vm": work.vm,
        "scope": work.scope,
        "impact": work.action.value,
        "state": work.state.value,
        "operation": work.operation or None,
        "description": work.description,
        "held": work.why_unknown is WhyUnknown.HELD,
        "earliest": None if earliest is None else format_instant(earliest),
        "latest": None if latest is None else format_instant(latest),
        "why_unknown": None
        if work.why_unknown is None
        else tenants.why_unknown(work.why_unknown.value),
    }
