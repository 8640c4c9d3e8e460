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
    for key, member in members.items():
        field_spec = cast(
            "tuple[Any, ...]", member if isinstance(member, tuple) else (member, None)
        )
        fields[key] = field_spec[0], Field(*field_spec[2:], description=field_spec[1])
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
    needs_approval=(bool, "False: it reports a failure."),
    approved_by=(
        str | None,
        "A VM's name, or another actor in parentheses; null if not approved.",
    ),
)

MoveShape = shape(
    "MoveShape", "A VM of an operation.", vm=str, to_host=str | None, done=bool
)

BlockerShape = shape(
    "BlockerShape",
    "One reason why an object waits; members that do not apply are null.",
    kind=str,
    text=(str, "The reason as a sentence."),
    remedy=(
        str,
        "The actor that can end the reason: operator, tenant, service (it ends with other work) or clock.",
    ),
    tenant=str | None,
    scope=str | None,
    event=str | None,
    vm=str | None,
    host=str | None,
    operation=str | None,
    until=(
        str | None,
        "The time at which the reason ends automatically; null if unknown.",
    ),
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
    blockers=(list_of(BlockerShape), "The same reasons as values."),
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
    states=(
        dict[str, int],
        "The number of operations in each state; Postponed: deferred by a tenant.",
    ),
    steps=(dict[str, str], "Its host steps, such as work: flash:version=2.19."),
    visits=(dict[str, int], "The number of visits in each state."),
)

RefusedShape = shape(
    "RefusedShape",
    "A refused target of a request.",
    name=str,
    error=(str, "The reason, as a sentence."),
    hint=(str, "The next step; can be empty."),
)

REFUSED = "Targets that were refused; the request applies to the others."

MadeShape = shape(
    "MadeShape",
    "The result of a request.",
    RequestShape,
    refused=(list_of(RefusedShape), REFUSED),
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
    needs_approval=(bool, "False: it reports a failure."),
    approved_by=str | None,
    approved=str | None,
    created=str,
    started=str | None,
    removed=str | None,
    outcome=str | None,
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

CancelledShape = shape(
    "CancelledShape",
    "The cancelled operations.",
    cancelled=list_of(OperationShape),
    refused=(list_of(RefusedShape), REFUSED),
)

ApprovedShape = shape(
    "ApprovedShape",
    "The events that were approved.",
    approved=list_of(EventShape),
    refused=(list_of(RefusedShape), REFUSED),
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
    refused=(list_of(RefusedShape), REFUSED),
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
    tenant=(str | None, "The tenant of the token; null for other tokens."),
    relay=(str | None, "The host whose relay holds the token; null for other tokens."),
    read_only=bool,
    roles=(
        list[str],
        "The rights of the holder: `view`, `plan`, `run`, `approve`, `emergency`. None for a relay.",
    ),
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
    role=(str, "`leads`, or `follows` for a replica that another one decides for."),
    problems=list[str],
)

ProblemShape = shape(
    "ProblemShape",
    "Every error.",
    error=(str, "The error, as a sentence."),
    hint=(str, "The next step; can be empty."),
    kind=(str, "The kind of the error, for programs."),
    leader=(str | None, "The URL of the replica that decides.", None),
    changed=(
        dict[str, Any] | None,
        "Of a conflict: `by`, `at`, `reason` and `what` of the other decision.",
        None,
    ),
    drift=(
        dict[str, Any] | None,
        (
            "Of a campaign whose plan has changed: the hosts that are `gone` and `new`, with "
            "`gone_count`, `new_count`, `moved_count`, `vms_before`, `vms_after`, `other_file` "
            "and `other_limits`."
        ),
        None,
    ),
    problems=(
        list[dict[str, Any]] | None,
        "Each invalid place of a request.",
        None,
    ),
)
