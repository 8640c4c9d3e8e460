"""Models of responses, for /openapi.json only: they validate nothing.

The values come from `reporting`; a test compares the names.
"""

from types import GenericAlias
from typing import Any, cast

from pydantic import BaseModel, Field, create_model


class Shape(BaseModel, defer_build=True):
    """The base of all models here; /openapi.json alone builds their schemas."""


def shape(name: str, about: str, base: Any = Shape, /, **members: Any) -> Any:
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
    "An event in the list of its operation.",
    EventId=str,
    scope=str,
    tenant=str,
    status=(str, "Scheduled, Started or Removed."),
    resources=(list[str], "Names of VMs, as on the wire."),
    approved_by=(
        str | None,
        "A VM's name, or another actor in parentheses; null if not approved.",
    ),
)

MoveShape = shape(
    "MoveShape", "A VM of an operation.", vm=str, to_host=str | None, done=bool
)

OperationShape = shape(
    "OperationShape",
    "One maintenance action on one host or one VM.",
    operation=str,
    rollout=str | None,
    request=str,
    kind=(str, "The verb of the request."),
    impact=(str, "The effect on the VMs."),
    target=str,
    target_kind=str,
    host=str,
    state=str,
    routine=(bool, "Whether the fault-domain guard may hold the operation."),
    not_before=str,
    created=str,
    started=str | None,
    impact_ended=str | None,
    ended=str | None,
    moves=list_of(MoveShape),
    vm_count=(int, "The number of VMs; of a Planned operation, those on its host now."),
    scopes=list[str],
    note=str,
    no_driver_call=(
        bool,
        "Whether the operation ended without a driver call, because it had no VMs.",
    ),
    events=list_of(EventInOperation),
    blocked_by=(list[str], "The reasons why the operation waits, as sentences."),
)

RequestShape = shape(
    "RequestShape",
    "One request, with its operations.",
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
    "One request with several operations.",
    rollout=str,
    kind=str,
    state=(str, "Open, Stopped, Cancelled or Closed."),
    actor=str,
    reason=str,
    created=str,
    at_once=(int, "Maximum hosts that are announced or in maintenance; 0: no maximum."),
    states=(dict[str, int], "The number of operations in each state."),
)

RefusedShape = shape(
    "RefusedShape",
    "A refused target of a request.",
    name=str,
    error=(str, "The reason, as a sentence."),
    hint=(str, "The next step; can be empty."),
)

_REFUSED = "Targets that were refused; the request applies to the others."

MadeShape = shape(
    "MadeShape",
    "The result of a request.",
    RequestShape,
    refused=(list_of(RefusedShape), _REFUSED),
)

EventShape = shape(
    "EventShape",
    "An event: wire members under their wire names, and members of forewarn.",
    EventId=str,
    EventStatus=str,
    EventType=str,
    ResourceType=str,
    Resources=list[str],
    NotBefore=(
        str,
        "NotBefore in the format of RFC 1123; empty once the event has started.",
    ),
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
    "An entry of the history.",
    id=str,
    at=str,
    actor=str,
    token=(
        str | None,
        "ID of the caller's token; null without a token, or for one of the file.",
    ),
    peer=(str | None, "Address that the request came from."),
    what=str,
    why=str,
    detail=str,
    subjects=list[str],
)

ApprovalShape = shape(
    "ApprovalShape",
    "The approval of one scope's event of an operation.",
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
    phase=(str, "scheduled, approved, ready, held, started, driver done, ..."),
    at=str,
    by=str,
    detail=str,
    scope=(str | None, "The scope of an approval."),
)

DownShape = shape(
    "DownShape",
    "A period in which a VM did not run.",
    kind=str,
    began=str,
    ended=str | None,
)

VmAccountShape = shape(
    "VmAccountShape",
    "The planned and the actual downtime of a VM.",
    vm=str,
    approved_by=(
        str | None,
        "The actor that approved the VM's event; null if not approved.",
    ),
    planned_seconds=(int | None, "The announced duration; null if unknown."),
    down_seconds=(float, "The actual downtime."),
    at_most=(
        bool,
        "Whether the downtime was not measured, so that this is an upper bound.",
    ),
    down=list_of(DownShape),
)

AccountShape = shape(
    "AccountShape",
    "The account of an operation.",
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
        "Whether the operation ended without a driver call, because it had no VMs.",
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
    vm_count=(int, "The number of VMs; of a Planned operation, those on its host now."),
    vms=list_of(VmAccountShape),
)

AvailabilityShape = shape(
    "AvailabilityShape",
    "The availability in a period.",
    percent=(
        float | None,
        "Uptime as a share of the known time, rounded down; null without known time.",
    ),
    existed_seconds=(float, "Known time in the fleet."),
    unknown_seconds=(float, "Time in the fleet before the records."),
    down_seconds=float,
    planned_seconds=float,
    unplanned_seconds=float,
    by_kind=dict[str, float],
    at_most_seconds=(
        float,
        "Part of the downtime: migrations with an unmeasured pause.",
    ),
    interruptions=int,
    longest_seconds=float,
    down_now=(int, "VMs that are down when the period ends."),
)

VmAvailabilityShape = shape(
    "VmAvailabilityShape",
    "The availability of one VM in a period.",
    AvailabilityShape,
    vm=str,
    scope=str,
    tenant=str,
)

TotalShape = shape(
    "TotalShape",
    "The availability of the VMs of a page in a period.",
    AvailabilityShape,
    vms=int,
)

Page = shape(
    "Page",
    "The base of all pages.",
    next=(str | None, "Value of `after` for the next page; null on the last page."),
)

OperationPage = shape(
    "OperationPage",
    "Operations, in order of their IDs.",
    Page,
    operations=list_of(OperationShape),
)

EventPage = shape(
    "EventPage",
    "Events, in order of their operations' IDs.",
    Page,
    events=list_of(EventShape),
)

RolloutPage = shape(
    "RolloutPage",
    "Rollouts, in order of their IDs.",
    Page,
    rollouts=list_of(RolloutShape),
)

HistoryPage = shape(
    "HistoryPage",
    "Entries of the history, the oldest first.",
    Page,
    entries=list_of(EntryShape),
)

AccountPage = shape(
    "AccountPage",
    "Operations, in order of their IDs.",
    Page,
    operations=list_of(AccountShape),
)

AvailabilityPage = shape(
    "AvailabilityPage",
    "VMs by name, and their total.",
    Page,
    since=str,
    until=str,
    vms=list_of(VmAvailabilityShape),
    total=TotalShape,
    several_domains_down_seconds=(
        float | None,
        "How long several fault domains of the scope were down at once; null without the filter `scope`, with `vm`, `host`, `zone` or `tag`, and after the first page.",
    ),
)

CancelledShape = shape(
    "CancelledShape",
    "The cancelled operations.",
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
    "The hosts and VMs that are up again.",
    restored=list_of(RestoredTarget),
    refused=(list_of(RefusedShape), _REFUSED),
)

FleetPage = shape(
    "FleetPage",
    "A part of the fleet: tenants, then scopes, hosts and VMs, by name.",
    Page,
    tenants=list[dict[str, Any]],
    scopes=list[dict[str, Any]],
    hosts=list[dict[str, Any]],
    vms=list[dict[str, Any]],
)

FleetCount = shape(
    "FleetCount",
    "The numbers of objects in a valid fleet file.",
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
    "The change of one object of the fleet.",
    kind=str,
    action=str,
    name=str,
    fields=list_of(FieldShape),
)

PlanShape = shape(
    "PlanShape",
    "The changes of a fleet file.",
    applied=bool,
    is_empty=(bool, "Whether the file changes nothing."),
    lines=(list[str], "The plan as text."),
    changes=list_of(ChangeShape),
)

WebhookShape = shape(
    "WebhookShape",
    "A receiver of changes of events, and its state.",
    webhook=str,
    tenant=(str | None, "The tenant whose events the receiver gets; null for all."),
    url=(str, "The URL without the parts that can be secret."),
    state=(str, "idle, sending, failing, gone, or no such tenant."),
    pending=(int, "Messages that wait for the receiver."),
    oldest=(str | None, "When the next message was written."),
    delivered=(int, "Messages that the receiver accepted since the start."),
    dropped=(int, "Messages that were dropped since the start."),
    failures=(int, "Consecutive failures."),
    last_delivered=str | None,
    last_failed=str | None,
    last_error=str | None,
    next_try=str | None,
)

WebhookList = shape("WebhookList", "All receivers.", webhooks=list_of(WebhookShape))

WebhookTestShape = shape(
    "WebhookTestShape",
    "The result of a ping.",
    webhook=str,
    delivered=bool,
    status=(int | None, "HTTP status of the response; null without a response."),
    error=str | None,
    seconds=float,
)

TokenShape = shape(
    "TokenShape",
    "A token of the operator API, without its secret.",
    id=str,
    name=str,
    tenant=(str | None, "The tenant of the token; null for an operator token."),
    read_only=bool,
    created=str,
    created_by=str,
    expires=str | None,
    expired=bool,
    last_used=(
        str | None,
        "Time of the last use, rounded to the hour; null if the token was not used.",
    ),
    unauthenticated=(
        bool,
        "Whether the token was created without authentication. The service revokes such tokens when it starts with a token file.",
    ),
)

NewTokenShape = shape(
    "NewTokenShape",
    "A new token.",
    TokenShape,
    token=(str, "The text of the token, which only this response has."),
)

TokenPage = shape(
    "TokenPage", "Tokens, in order of their IDs.", Page, tokens=list_of(TokenShape)
)

HealthShape = shape(
    "HealthShape",
    "The health of the service.",
    alive=bool,
    ready=bool,
    problems=list[str],
)

ProblemShape = shape(
    "ProblemShape",
    "Every error.",
    error=(str, "The error, as a sentence."),
    hint=(str, "The next step; can be empty."),
    kind=(str, "The kind of the error, for programs."),
    problems=(
        list[dict[str, Any]] | None,
        "Each invalid place of a request.",
        None,
    ),
)
