"""Models of answers, for /openapi.json only: nothing is checked by them.

The values come from `reporting`; a test compares the names.
"""

from types import GenericAlias
from typing import Any, cast

from pydantic import BaseModel, Field, create_model


def shape(name: str, about: str, base: Any = BaseModel, /, **members: Any) -> Any:
    """Return a model.

    Each member is its type, or its type, its description and perhaps its default.
    """
    fields: dict[str, Any] = {}
    for key, each in members.items():
        said = cast(
            "tuple[Any, ...]", each if isinstance(each, tuple) else (each, None)
        )
        fields[key] = said[0], Field(*said[2:], description=said[1])
    return create_model(name, __base__=base, __doc__=about, **fields)


def list_of(model: Any) -> Any:
    """Return the type of a list of this model."""
    return GenericAlias(list, (model,))


EventInOperation = shape(
    "EventInOperation",
    "An event, as its operation lists it.",
    EventId=str,
    scope=str,
    tenant=str,
    status=(str, "Scheduled, Started or Removed."),
    resources=(list[str], "Names of VMs, as on the wire."),
    approved_by=(str | None, "A VM's name, or who else in parentheses; null: nobody."),
)

MoveShape = shape(
    "MoveShape", "A VM of an operation.", vm=str, to_host=str | None, done=bool
)

OperationShape = shape(
    "OperationShape",
    "The smallest thing that is done at once, to one host or one VM.",
    operation=str,
    rollout=str | None,
    request=str,
    kind=(str, "The verb that ordered it."),
    impact=(str, "What is done to the VMs."),
    target=str,
    target_kind=str,
    host=str,
    state=str,
    routine=(bool, "Whether the fault-domain guard may hold it."),
    not_before=str,
    created=str,
    started=str | None,
    impact_ended=str | None,
    ended=str | None,
    moves=list_of(MoveShape),
    vm_count=(int, "VMs that it is for; of a Planned one: those on its host now."),
    scopes=list[str],
    note=str,
    no_driver_call=(
        bool,
        "It was carried out without a driver call: nothing was done.",
    ),
    events=list_of(EventInOperation),
    blocked_by=(list[str], "Why it waits, each a sentence."),
)

RequestShape = shape(
    "RequestShape",
    "One order, with its operations.",
    request=str,
    rollout=str | None,
    kind=str,
    state=str,
    actor=str,
    reason=str,
    created=str,
    operations=list_of(OperationShape),
)

RolloutShape = shape(
    "RolloutShape",
    "One order of several operations.",
    rollout=str,
    kind=str,
    state=(str, "Open, Stopped, Cancelled or Closed."),
    actor=str,
    reason=str,
    created=str,
    at_once=(int, "How many of its hosts are announced or worked on at once; 0: all."),
    states=(dict[str, int], "How many operations are in each state."),
)

RefusedShape = shape(
    "RefusedShape",
    "A host or VM that an order leaves out.",
    name=str,
    error=(str, "Why, in a sentence."),
    hint=(str, "What to do next; may be empty."),
)

_REFUSED = "Targets that were left out; the order is about the rest."

MadeShape = shape(
    "MadeShape",
    "What an order made.",
    RequestShape,
    refused=(list_of(RefusedShape), _REFUSED),
)

EventShape = shape(
    "EventShape",
    "An event: wire members under their wire names, and what is ours.",
    EventId=str,
    EventStatus=str,
    EventType=str,
    ResourceType=str,
    Resources=list[str],
    NotBefore=(str, "RFC 1123; empty once it has started."),
    Description=str,
    EventSource=str,
    DurationInSeconds=int,
    operation=str,
    scope=str,
    tenant=str,
    vms=(list[str], "The resources' names in the fleet."),
    approved_by=str | None,
    approved=str | None,
    created=str,
    started=str | None,
    removed=str | None,
    outcome=str | None,
)

EntryShape = shape(
    "EntryShape",
    "A line of the history.",
    id=str,
    at=str,
    actor=str,
    token=(
        str | None,
        "ID of the token that was presented; null: none, or one of the file.",
    ),
    peer=(str | None, "Address that the request came from."),
    what=str,
    why=str,
    detail=str,
    subjects=list[str],
)

ApprovalShape = shape(
    "ApprovalShape",
    "Who approved what one scope was told of an operation.",
    EventId=str,
    scope=str,
    tenant=str,
    status=str,
    approved_by=str | None,
    approved=str | None,
    started=str | None,
    removed=str | None,
    outcome=str | None,
)

PhaseShape = shape(
    "PhaseShape",
    "A step of an operation.",
    phase=(str, "scheduled, approved, let go, held, started, driver done, ..."),
    at=str,
    by=str,
    detail=str,
    scope=(str | None, "Of an approval: whose."),
)

DownShape = shape(
    "DownShape",
    "A time in which a VM did not run.",
    kind=str,
    began=str,
    ended=str | None,
)

VmAccountShape = shape(
    "VmAccountShape",
    "What was planned for a VM, and what it was.",
    vm=str,
    approved_by=(
        str | None,
        "Who approved the event that it was told of; null: nobody.",
    ),
    planned_seconds=(int | None, "What was told; null: unknown."),
    down_seconds=(float, "How long it really did not run."),
    at_most=(bool, "Nobody measured it: it was no longer."),
    down=list_of(DownShape),
)

AccountShape = shape(
    "AccountShape",
    "What became of an operation.",
    operation=str,
    what=str,
    kind=str,
    impact=str,
    target=str,
    target_kind=str,
    host=str,
    state=str,
    outcome=(str | None, "completed, cancelled or failed."),
    note=str,
    no_driver_call=(
        bool,
        "It was carried out without a driver call: nothing was done.",
    ),
    actor=str | None,
    reason=str,
    description=str,
    not_before=str,
    created=str,
    started=str | None,
    impact_ended=str | None,
    ended=str | None,
    approvals=list_of(ApprovalShape),
    phases=list_of(PhaseShape),
    vms=list_of(VmAccountShape),
)

AvailabilityShape = shape(
    "AvailabilityShape",
    "What a period came to.",
    percent=(
        float | None,
        "Of the known time: how much was up, rounded down; null: none.",
    ),
    existed_seconds=(float, "Known time in the fleet."),
    unknown_seconds=(float, "Time in the fleet before the records."),
    down_seconds=float,
    planned_seconds=float,
    unplanned_seconds=float,
    by_kind=dict[str, float],
    at_most_seconds=(
        float,
        "Of the down time: migrations whose pause nobody measured.",
    ),
    interruptions=int,
    longest_seconds=float,
    down_now=(int, "How many are down when the period ends."),
)

VmAvailabilityShape = shape(
    "VmAvailabilityShape",
    "What a period came to for one VM.",
    AvailabilityShape,
    vm=str,
    scope=str,
    tenant=str,
)

TotalShape = shape(
    "TotalShape",
    "What a period came to for the VMs of a page.",
    AvailabilityShape,
    vms=int,
)

Page = shape(
    "Page",
    "What all pages have.",
    next=(str | None, "Give it as `after` to get the next page; null: that was all."),
)

OperationPage = shape(
    "OperationPage",
    "Some operations, in order of their ids.",
    Page,
    operations=list_of(OperationShape),
)

EventPage = shape(
    "EventPage",
    "Some events, in order of their operations' ids.",
    Page,
    events=list_of(EventShape),
)

RolloutPage = shape(
    "RolloutPage",
    "Some rollouts, in order of their ids.",
    Page,
    rollouts=list_of(RolloutShape),
)

HistoryPage = shape(
    "HistoryPage",
    "Some lines of the history, the oldest first.",
    Page,
    entries=list_of(EntryShape),
)

AccountPage = shape(
    "AccountPage",
    "Some operations, in order of their ids.",
    Page,
    operations=list_of(AccountShape),
)

AvailabilityPage = shape(
    "AvailabilityPage",
    "Some VMs, by name, and what they come to together.",
    Page,
    since=str,
    until=str,
    vms=list_of(VmAvailabilityShape),
    total=TotalShape,
    several_domains_down_seconds=(
        float | None,
        "How long several fault domains of the scope were down at once; null: no scope was asked for, or it stands in the first page.",
    ),
)

CancelledShape = shape(
    "CancelledShape",
    "What was cancelled.",
    cancelled=list_of(OperationShape),
    refused=(list_of(RefusedShape), _REFUSED),
)

ApprovedShape = shape(
    "ApprovedShape",
    "The events that were approved.",
    approved=list_of(EventShape),
    refused=(list_of(RefusedShape), _REFUSED),
)

RestoredTarget = shape(
    "RestoredTarget",
    "A host or VM that is up again.",
    kind=(str, "host or vm."),
    name=str,
    state=str,
)

RestoredShape = shape(
    "RestoredShape",
    "What is up again.",
    restored=list_of(RestoredTarget),
    refused=(list_of(RefusedShape), _REFUSED),
)

FleetPage = shape(
    "FleetPage",
    "Some of the fleet: tenants, then scopes, hosts and VMs, by name.",
    Page,
    tenants=list[dict[str, Any]],
    scopes=list[dict[str, Any]],
    hosts=list[dict[str, Any]],
    vms=list[dict[str, Any]],
)

FleetCount = shape(
    "FleetCount",
    "What a sound fleet file describes.",
    tenants=int,
    scopes=int,
    hosts=int,
    vms=int,
)

FieldShape = shape(
    "FieldShape",
    "A field of the fleet file that changes.",
    name=str,
    before=str,
    after=str,
)

ChangeShape = shape(
    "ChangeShape",
    "What becomes of one object of the fleet.",
    kind=str,
    action=str,
    name=str,
    fields=list_of(FieldShape),
)

PlanShape = shape(
    "PlanShape",
    "What applying a fleet file does, or did.",
    applied=bool,
    is_empty=(bool, "There is nothing to change."),
    lines=(list[str], "The plan for a person."),
    changes=list_of(ChangeShape),
)

WebhookShape = shape(
    "WebhookShape",
    "A receiver of changes of events, and how it does.",
    webhook=str,
    tenant=(str | None, "Whose events it hears of; null: all."),
    url=(str, "Without what may be secret in it."),
    state=(str, "idle, sending, failing, gone, or no such tenant."),
    pending=(int, "Messages that wait for it."),
    oldest=(str | None, "When the next message was written."),
    delivered=(int, "Messages that it took since the start."),
    dropped=(int, "Messages that were given up since the start."),
    failures=(int, "In a row."),
    last_delivered=str | None,
    last_failed=str | None,
    last_error=str | None,
    next_try=str | None,
)

WebhookList = shape("WebhookList", "All receivers.", webhooks=list_of(WebhookShape))

WebhookTestShape = shape(
    "WebhookTestShape",
    "What came of a ping.",
    webhook=str,
    delivered=bool,
    status=(int | None, "Of the answer; null: there was none."),
    error=str | None,
    seconds=float,
)

TokenShape = shape(
    "TokenShape",
    "A token of the operator API, without its secret.",
    id=str,
    name=str,
    tenant=(str | None, "Whose VMs it is for; null: an operator's."),
    read_only=bool,
    created=str,
    created_by=str,
    expires=str | None,
    expired=bool,
    last_used=(str | None, "To the hour; null: not yet."),
    unauthenticated=(
        bool,
        "Its maker presented neither a token nor credentials; it ends when the service starts with a token file.",
    ),
)

NewTokenShape = shape(
    "NewTokenShape",
    "A token that was just made.",
    TokenShape,
    token=(str, "Its text; it is told this once."),
)

TokenPage = shape(
    "TokenPage", "Some tokens, in order of their ids.", Page, tokens=list_of(TokenShape)
)

HealthShape = shape(
    "HealthShape",
    "Whether the service does its work.",
    alive=bool,
    ready=bool,
    problems=list[str],
)

ProblemShape = shape(
    "ProblemShape",
    "Every error.",
    error=(str, "What is wrong, in a sentence."),
    hint=(str, "What to do next; may be empty."),
    kind=(str, "Which of a few kinds it is, for programs."),
    problems=(
        list[dict[str, Any]] | None,
        "Each place that is wrong, where there are several.",
        None,
    ),
)
