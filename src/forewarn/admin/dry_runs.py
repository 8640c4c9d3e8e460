"""Requests with `dry_run`: each is decided in a transaction that is rolled back."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

from pydantic import BaseModel

from forewarn.admin import bodies
from forewarn.control.requests import dry_run
from forewarn.control.requests.dry_run import Beforehand, DryRunError, Group
from forewarn.control.transactions.work import Work
from forewarn.store.port import Reader
from forewarn.verbs.model import Answer, Kind
from forewarn.verbs.table import VERBS

Json: TypeAlias = dict[str, Any]

_Groups: TypeAlias = dict[str, Group]


def _stopped(before: Beforehand) -> _Groups:
    return {"cancelled": before.announced, "continues": before.in_work}


def _left_alone(before: Beforehand) -> _Groups:
    both = Group()
    for group in (before.announced, before.in_work):
        both.operations |= group.operations
        both.hosts |= group.hosts
        both.vms |= group.vms
        both.tenants |= group.tenants
        both.events |= group.events
        both.is_cut |= group.is_cut
    return {"continues": both}


_OF_CAMPAIGN: Mapping[str, Callable[[Beforehand], _Groups]] = {
    "campaign-pause": _left_alone,
    "campaign-halt": _stopped,
    "campaign-abort": _stopped,
    "campaign-resume": _left_alone,
    "campaign-approve": _left_alone,
}
"""The effect of verbs whose work follows after their transaction."""


def wants(body: BaseModel) -> bool:
    """Return whether a request is a dry run."""
    return isinstance(body, bodies.OrderWithDryRun) and body.dry_run


def decide_dry(
    work: Work, name: str, body: BaseModel, decide: Callable[[], Any], *, tenant: str
) -> DryRunError:
    """Decide a request, and return the error that rolls it back; raises its refusals."""
    before = _beforehand(work.tx, name, body)
    value = decide()
    entry = VERBS.get(name)
    creates = entry is not None and entry.answer is Answer.REQUEST
    changed = work.finish().changed
    groups = dry_run.of_changes(
        work,
        changed,
        creates=creates,
        # A start at once would show a tenant that all others have approved.
        tells_starts=not tenant,
    )
    if before is not None:
        groups = (
            _of_brake(body, before) if name == "brake" else _OF_CAMPAIGN[name](before)
        )
    answered = cast("Json", value) if isinstance(value, dict) else {}
    is_about_hosts = before is not None and name != "brake"
    report = dry_run.report(
        work,
        groups,
        targets=_targets(name, body, answered),
        changed=() if tenant else changed,
        waiting=before.waiting if before and is_about_hosts else None,
        refused=answered.get("refused", []),
    )
    if tenant:
        report |= {
            "effect": _effect_for_tenant(work, groups, tenant),
            "at_least": False,
        }
    return DryRunError(report)


def _effect_for_tenant(work: Work, groups: _Groups, tenant: str) -> Json:
    """Return the part of an effect that a tenant may know."""
    return {
        kind: group.report_for(work.tx, tenant)
        for kind, group in sorted(groups.items())
        if group.operations and kind in _FOR_TENANTS
    }


_FOR_TENANTS = frozenset({"announced", "approved", "cancelled"})
"""Effects that a tenant sees. The start of work would show that all others approved."""


def _beforehand(reader: Reader, name: str, body: BaseModel) -> Beforehand | None:
    if name == "brake":
        return dry_run.of_service(reader)
    if name in _OF_CAMPAIGN:
        campaign = getattr(body, VERBS[name].targets.key)
        return dry_run.of_campaign(reader, campaign)
    return None


def _of_brake(body: BaseModel, before: Beforehand) -> _Groups:
    assert isinstance(body, bodies.BrakeOrder)
    if not body.on:
        return {"freed": before.announced}
    if body.withdraw:
        return _stopped(before)
    return {"held": before.announced, "continues": before.in_work}


def _targets(name: str, body: BaseModel, answered: Json) -> int:
    """Return how many targets of a request were not refused."""
    entry = VERBS.get(name)
    if entry is None:
        return 1
    key = "hosts" if entry.targets.kind is Kind.CAMPAIGN else entry.targets.key
    named = getattr(body, key, None)
    count = len(cast("list[str]", named)) if isinstance(named, list) else 1
    return max(0, count - len(answered.get("refused", [])))
