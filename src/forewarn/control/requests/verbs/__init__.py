"""The decision of each verb in the table of verbs.

Each verb is one transaction. Table 5.9 has its events, and
`docs/reference/verbs-and-refusals.md` has its refusals with the messages that are raised
here.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TypeAlias

from forewarn.campaigns.record import CampaignRecord
from forewarn.control.execution import ending
from forewarn.control.requests import (
    approvals,
    blackouts,
    choices,
    cordons,
    failures,
    outcome,
    rollouts,
    visiting,
    windows,
)
from forewarn.control.requests.campaigns import end_aborted
from forewarn.control.requests.verbs.campaigns import CAMPAIGN_DECISIONS
from forewarn.control.requests.verbs.changes import (
    CHANGES,
    OrderOptions,
    change_vms,
    check_count,
    check_targets,
    free_hosts,
    maintain,
    predict_failure,
    wishes_of,
)
from forewarn.control.requests.verbs.emptying import fit_host
from forewarn.control.rules import campaign_gate, steerable_hosts
from forewarn.control.rules.campaign_hosts import none_failed
from forewarn.control.transactions.named import kind_of_work, need
from forewarn.control.transactions.work import Work
from forewarn.fleet.model import Host, Vm, VmState
from forewarn.protocol.errors import BadRequestError, NotFoundError, RefusedError
from forewarn.protocol.notes import AnyNote, Cancelled
from forewarn.protocol.operations import (
    ENDED_STATES,
    UNSTARTED_STATES,
    Action,
    Operation,
    Request,
    Verb,
)
from forewarn.store import kinds
from forewarn.store.port import every
from forewarn.verbs.model import TARGETS_MAX, Kind, VerbRequest

__all__ = [
    "DECISIONS",
    "TARGETS_MAX",
    "Decide",
    "OrderOptions",
    "cancel",
    "change_vms",
    "check_count",
    "maintain",
    "predict_failure",
]

Made: TypeAlias = str | list[str] | list[dict[str, str]]
"""A JSON value of the type that `answer` in the verb's entry has."""

Decide: TypeAlias = Callable[[Work, VerbRequest], Made]
"""Decides a request; returns the value that the entry's `answer` describes."""


def _maintain(work: Work, given: VerbRequest) -> str:
    return maintain(
        work, given.targets, Action(given.text("impact")), wishes_of(given)
    ).request_id


def _change_vms(verb: Verb, work: Work, given: VerbRequest) -> str:
    return change_vms(work, given.targets, verb, wishes_of(given)).request_id


def _predict_failure(work: Work, given: VerbRequest) -> str:
    ahead, wishes = given.number("in"), wishes_of(given)
    if wishes.not_before is not None:
        if ahead is not None:
            raise BadRequestError("give `in` or `not_before`, not both")
        ahead = wishes.not_before - work.now
    notice = work.policy.failure_notice if ahead is None else ahead
    return predict_failure(work, given.targets, notice, wishes).request_id


def _fail(work: Work, given: VerbRequest) -> str:
    operations: list[Operation] = []

    def fail(name: str) -> Operation:
        request = work.request(operations[0].request) if operations else None
        is_host = _kind_of(work, name, given.text("kind")) == "host"
        one = failures.fail_host if is_host else failures.fail_vm
        operations.append(one(work, name, request))
        return operations[-1]

    check_targets(given.targets, Kind.EITHER)
    return work.parts.each(given.targets, fail)[0].request


def _restore(work: Work, given: VerbRequest) -> list[dict[str, str]]:
    def restore(name: str) -> dict[str, str]:
        kind = _kind_of(work, name, given.text("kind"))
        one = failures.restore_host if kind == "host" else failures.restore_vm
        return {"kind": kind, "name": name, "state": one(work, name).state.value}

    check_targets(given.targets, Kind.EITHER)
    return work.parts.each(given.targets, restore)


def _cordon(work: Work, given: VerbRequest) -> list[str]:
    check_targets(given.targets, Kind.HOST)
    hosts = work.parts.each(given.targets, lambda name: cordons.cordon(work, name))
    return [host.name for host in hosts]


def _open(work: Work, given: VerbRequest) -> list[str]:
    by_all = bool(given.number("all_owners"))
    check_targets(given.targets, Kind.HOST)
    hosts = work.parts.each(
        given.targets, lambda name: cordons.open_host(work, name, by_all=by_all)
    )
    return [host.name for host in hosts]


def _drain(work: Work, given: VerbRequest) -> str:
    check_targets(given.targets, Kind.HOST)
    hosts = free_hosts(work, given.targets)
    hosts = work.parts.each(hosts, none_failed(work.tx, hosts))
    action = Action(given.text("impact") or Action.LIVE_MIGRATE.value)
    wishes = wishes_of(given)
    hosts = work.parts.each(
        hosts, lambda name: fit_host(work, name, action, wishes.steps)
    )
    # All are closed before the first is emptied, so that no VM moves to another of them.
    for name in hosts:
        cordons.cordon_for_work(work, name)
    return maintain(work, hosts, action, wishes).request_id


def _set_windows(work: Work, given: VerbRequest) -> list[str]:
    check_targets(given.targets, Kind.SCOPE)
    wanted = windows.windows_of(given.names("windows"))
    scopes = work.parts.each(
        given.targets, lambda name: windows.set_windows(work, name, wanted)
    )
    return [scope.name for scope in scopes]


def _clear_windows(work: Work, given: VerbRequest) -> list[str]:
    check_targets(given.targets, Kind.SCOPE)
    scopes = work.parts.each(
        given.targets, lambda name: windows.clear_windows(work, name)
    )
    return [scope.name for scope in scopes]


def _set_blackout(work: Work, given: VerbRequest) -> str:
    [name] = given.targets
    return blackouts.set_blackout(
        work, name, given.text("time"), given.names("where")
    ).name


def _remove_blackout(work: Work, given: VerbRequest) -> str:
    [name] = given.targets
    blackouts.remove(work, name)
    return name


def _defer(work: Work, given: VerbRequest) -> list[str]:
    until = given.number("until")
    clears = given.values.get("clear") is True
    check_targets(given.targets, Kind.VM_OR_SCOPE)
    if clears == (until is not None):
        raise RefusedError(
            "give either a time or the end of a deferral",
            hint="Add --until +2d, or --clear (`clear` in a request).",
        )

    def defer(name: str) -> list[str]:
        target = choices.target_of(work, name, given.text("kind"))
        if until is None:
            return choices.clear(work, target)
        return choices.defer(work, target, until)

    choice_ids = work.parts.each(given.targets, defer)
    return [key for keys in choice_ids for key in keys]


def _expedite(work: Work, given: VerbRequest) -> list[str]:
    check_targets(given.targets, Kind.VM)
    choice_ids = work.parts.each(
        given.targets,
        lambda name: choices.expedite(work, choices.vm_of(work, name)),
    )
    return [key for keys in choice_ids for key in keys]


def _retry(work: Work, given: VerbRequest) -> list[str]:
    check_targets(given.targets, Kind.HOST)
    only_verify = given.values.get("only_verify") is True
    visits = work.parts.each(
        given.targets,
        lambda name: visiting.retry(work, name, only_verify=only_verify),
    )
    return [visit.host for visit in visits]


def _skip(work: Work, given: VerbRequest) -> list[str]:
    check_targets(given.targets, Kind.HOST)
    visits = work.parts.each(given.targets, lambda name: visiting.skip(work, name))
    return [visit.host for visit in visits]


def _kind_of(work: Work, name: str, said: str) -> str:
    """Return the kind of a name; refuse a name of neither a host nor a VM, or of both."""
    if said:
        return said
    vm = work.tx.get(Vm, name)
    is_vm = vm is not None and vm.state is not VmState.DELETED
    is_host = work.tx.get(Host, name) is not None
    if is_vm and is_host:
        raise RefusedError(
            f"{name!r} is the name of a host and of a VM",
            hint="Add --kind host or --kind vm.",
        )
    if not is_vm and not is_host:
        raise NotFoundError(
            f"there is no host or VM {name!r}",
            hint="Names are case-sensitive. Run `forewarn fleet show --all` to list them.",
        )
    return "host" if is_host else "vm"


def cancel(work: Work, name: str, *, note: AnyNote) -> list[Operation]:
    """Cancel an operation, or the operations of a request that have not started (4.1).

    Return the cancelled operations. Refused: unknown IDs; operations past the point of no
    return, which is Started; ended operations; the rollout of a campaign, which would
    count as done.
    """
    request = work.tx.get(Request, name)
    if request is None:
        operation = need(work.tx, kind_of_work(name), name)
        assert isinstance(operation, Operation)
        if operation.state not in UNSTARTED_STATES:
            raise RefusedError(
                _too_late(work, [operation]), hint=_what_became(work, operation)
            )
        work.lock_scopes(operation.scopes)
        ending.cancel(work, operation, note=note, by=work.who.actor)
        return [work.operation(name)]
    campaign = campaign_gate.campaign_of(work.tx, request)
    if campaign is not None and not campaign.has_ended:
        _check_is_steered_rollout(campaign)
        return end_aborted(work, campaign, note=note)
    siblings = list(every(work.tx, kinds.OPERATIONS_OF_REQUEST, name))
    has_unstarted = any(sibling.state in UNSTARTED_STATES for sibling in siblings)
    if not has_unstarted and not request.hosts_unplanned:
        raise RefusedError(
            f"no operation of {work.called(name)} can be cancelled: "
            + _too_late(work, siblings),
            hint=f"Run `forewarn history --operation {work.called(name)} --summary` to see "
            "its history.",
        )
    return rollouts.cancel_unstarted(work, request, note=note)


def _check_is_steered_rollout(campaign: CampaignRecord) -> None:
    """Refuse to cancel the rollout of a campaign that was started with a file."""
    if campaign.name != campaign.request:
        raise RefusedError(
            f"{campaign.request} is the rollout of campaign {campaign.name}, which is "
            f"{campaign.state.value}",
            hint=f"Run `forewarn campaign abort {campaign.name} --reason TEXT` to end it.",
        )


def _too_late(work: Work, operations: Iterable[Operation]) -> str:
    """Return why operations cannot be cancelled."""
    return steerable_hosts.too_late(operations, work.called)


def _what_became(work: Work, operation: Operation) -> str:
    name = work.called(operation.operation_id)
    if operation.state in ENDED_STATES:
        return (
            f"Run `forewarn history --operation {name} --summary` to see its history."
        )
    return f"Run `forewarn explain {name}` to see its status."


def _cancel(work: Work, given: VerbRequest) -> list[str]:
    note = Cancelled(by=work.who.actor, reason=work.who.reason)
    check_targets(given.targets, Kind.WORK)
    operations = work.parts.each(
        given.targets, lambda name: cancel(work, name, note=note)
    )
    return [
        operation.operation_id for cancelled in operations for operation in cancelled
    ]


def _approve(work: Work, given: VerbRequest) -> list[str]:
    as_vm = given.text("as_vm")
    check_targets([target.upper() for target in given.targets], Kind.EVENT)
    return work.parts.each(
        given.targets,
        lambda name: approvals.approve_for(work, name, as_vm=as_vm).event_id,
    )


def _resolve(work: Work, given: VerbRequest) -> str:
    [name] = given.targets
    return outcome.resolve(
        work,
        name,
        done=given.text("outcome") == "done",
        down=given.names("down"),
        moved=given.names("moved"),
    ).operation_id


DECISIONS: Mapping[str, Decide] = {
    "maintain": _maintain,
    **{verb.value: partial(_change_vms, verb) for verb in CHANGES},
    "predict-failure": _predict_failure,
    "fail": _fail,
    "restore": _restore,
    "host-cordon": _cordon,
    "host-open": _open,
    "host-drain": _drain,
    "defer": _defer,
    "expedite": _expedite,
    "window-set": _set_windows,
    "window-clear": _clear_windows,
    **CAMPAIGN_DECISIONS,
    "blackout-set": _set_blackout,
    "blackout-remove": _remove_blackout,
    "visit-retry": _retry,
    "visit-skip": _skip,
    "cancel": _cancel,
    "approve": _approve,
    "resolve": _resolve,
}
"""The decision of each verb, by name."""
