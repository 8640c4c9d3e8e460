"""What answers look like, for /openapi.json only: nothing is checked by these.

The values come from `reporting.reports`; a test compares the names.
"""

from typing import Any

from pydantic import BaseModel, Field


class EventInOperation(BaseModel):
    """An event, as its operation lists it."""

    EventId: str
    scope: str
    tenant: str
    status: str = Field(description="Scheduled, Started or Removed.")
    resources: list[str] = Field(description="Names of VMs, as on the wire.")
    approved_by: str | None = Field(
        description="A VM's name, or who else in parentheses; null: nobody."
    )


class MoveShape(BaseModel):
    """A VM of an operation."""

    vm: str
    to_host: str | None
    done: bool


class OperationShape(BaseModel):
    """The smallest thing that is done at once, to one host or one VM."""

    operation: str
    rollout: str | None
    request: str
    kind: str = Field(description="The verb that ordered it.")
    impact: str = Field(description="What is done to the VMs.")
    target: str
    target_kind: str
    host: str
    state: str
    routine: bool = Field(description="Whether the fault-domain guard may hold it.")
    not_before: str
    created: str
    started: str | None
    impact_ended: str | None
    ended: str | None
    moves: list[MoveShape]
    vm_count: int = Field(
        description="VMs that it is for; of a Planned one: those on its host now."
    )
    scopes: list[str]
    note: str
    no_driver_call: bool = Field(
        description="It was carried out without a driver call: nothing was done."
    )
    events: list[EventInOperation]
    blocked_by: list[str] = Field(description="Why it waits, each a sentence.")


class RequestShape(BaseModel):
    """One order, with its operations."""

    request: str
    rollout: str | None
    kind: str
    state: str
    actor: str
    reason: str
    created: str
    operations: list[OperationShape]


class RolloutShape(BaseModel):
    """One order of several operations."""

    rollout: str
    kind: str
    state: str = Field(description="Open, Stopped, Cancelled or Closed.")
    actor: str
    reason: str
    created: str
    at_once: int = Field(
        description="How many of its hosts are announced or worked on at once; 0: all."
    )
    states: dict[str, int] = Field(description="How many operations are in each state.")


class RefusedShape(BaseModel):
    """A host or VM that an order leaves out."""

    name: str
    error: str = Field(description="Why, in a sentence.")
    hint: str = Field(description="What to do next; may be empty.")


_REFUSED = Field(description="Targets that were left out; the order is about the rest.")


class MadeShape(RequestShape):
    """What an order made."""

    refused: list[RefusedShape] = _REFUSED


class EventShape(BaseModel):
    """An event: wire members under their wire names, and what is ours."""

    EventId: str
    EventStatus: str
    EventType: str
    ResourceType: str
    Resources: list[str]
    NotBefore: str = Field(description="RFC 1123; empty once it has started.")
    Description: str
    EventSource: str
    DurationInSeconds: int
    operation: str
    scope: str
    tenant: str
    vms: list[str] = Field(description="The resources' names in the fleet.")
    approved_by: str | None
    approved: str | None
    created: str
    started: str | None
    removed: str | None
    outcome: str | None


class EntryShape(BaseModel):
    """A line of the history."""

    id: str
    at: str
    actor: str
    token: str | None = Field(
        description="ID of the token that was presented; null: none, or one of the file."
    )
    peer: str | None = Field(description="Address that the request came from.")
    what: str
    why: str
    detail: str
    subjects: list[str]


class ApprovalShape(BaseModel):
    """Who approved what one scope was told of an operation."""

    EventId: str
    scope: str
    tenant: str
    status: str
    approved_by: str | None
    approved: str | None
    started: str | None
    removed: str | None
    outcome: str | None


class PhaseShape(BaseModel):
    """A step of an operation."""

    phase: str = Field(
        description="scheduled, approved, let go, held, started, driver done, ..."
    )
    at: str
    by: str
    detail: str
    scope: str | None = Field(description="Of an approval: whose.")


class DownShape(BaseModel):
    """A time in which a VM did not run."""

    kind: str
    began: str
    ended: str | None


class VmAccountShape(BaseModel):
    """What was planned for a VM, and what it was."""

    vm: str
    approved_by: str | None = Field(
        description="Who approved the event that it was told of; null: nobody."
    )
    planned_seconds: int | None = Field(description="What was told; null: unknown.")
    down_seconds: float = Field(description="How long it really did not run.")
    at_most: bool = Field(description="Nobody measured it: it was no longer.")
    down: list[DownShape]


class AccountShape(BaseModel):
    """What became of an operation."""

    operation: str
    what: str
    kind: str
    impact: str
    target: str
    target_kind: str
    host: str
    state: str
    outcome: str | None = Field(description="completed, cancelled or failed.")
    note: str
    no_driver_call: bool = Field(
        description="It was carried out without a driver call: nothing was done."
    )
    actor: str | None
    reason: str
    description: str
    not_before: str
    created: str
    started: str | None
    impact_ended: str | None
    ended: str | None
    approvals: list[ApprovalShape]
    phases: list[PhaseShape]
    vms: list[VmAccountShape]


class AvailabilityShape(BaseModel):
    """What a period came to."""

    percent: float | None = Field(
        description="Of the known time: how much was up, rounded down; null: none."
    )
    existed_seconds: float = Field(description="Known time in the fleet.")
    unknown_seconds: float = Field(description="Time in the fleet before the records.")
    down_seconds: float
    planned_seconds: float
    unplanned_seconds: float
    by_kind: dict[str, float]
    at_most_seconds: float = Field(
        description="Of the down time: migrations whose pause nobody measured."
    )
    interruptions: int
    longest_seconds: float
    down_now: int = Field(description="How many are down when the period ends.")


class VmAvailabilityShape(AvailabilityShape):
    """What a period came to for one VM."""

    vm: str
    scope: str
    tenant: str


class TotalShape(AvailabilityShape):
    """What a period came to for the VMs of a page."""

    vms: int


class Page(BaseModel):
    """What all pages have."""

    next: str | None = Field(
        description="Give it as `after` to get the next page; null: that was all."
    )


class OperationPage(Page):
    """Some operations, in order of their ids."""

    operations: list[OperationShape]


class EventPage(Page):
    """Some events, in order of their operations' ids."""

    events: list[EventShape]


class RolloutPage(Page):
    """Some rollouts, in order of their ids."""

    rollouts: list[RolloutShape]


class HistoryPage(Page):
    """Some lines of the history, the oldest first."""

    entries: list[EntryShape]


class AccountPage(Page):
    """Some operations, in order of their ids."""

    operations: list[AccountShape]


class AvailabilityPage(Page):
    """Some VMs, by name, and what they come to together."""

    since: str
    until: str
    vms: list[VmAvailabilityShape]
    total: TotalShape
    several_domains_down_seconds: float | None = Field(
        description="How long several fault domains of the scope were down at once; "
        "null: no scope was asked for, or it stands in the first page."
    )


class CancelledShape(BaseModel):
    """What was cancelled."""

    cancelled: list[OperationShape]
    refused: list[RefusedShape] = _REFUSED


class ApprovedShape(BaseModel):
    """The events that were approved."""

    approved: list[EventShape]
    refused: list[RefusedShape] = _REFUSED


class RestoredTarget(BaseModel):
    """A host or VM that is up again."""

    kind: str = Field(description="host or vm.")
    name: str
    state: str


class RestoredShape(BaseModel):
    """What is up again."""

    restored: list[RestoredTarget]
    refused: list[RefusedShape] = _REFUSED


class FleetPage(Page):
    """Some of the fleet: tenants, then scopes, hosts and VMs, by name."""

    tenants: list[dict[str, Any]]
    scopes: list[dict[str, Any]]
    hosts: list[dict[str, Any]]
    vms: list[dict[str, Any]]


class FleetCount(BaseModel):
    """What a sound fleet file describes."""

    tenants: int
    scopes: int
    hosts: int
    vms: int


class FieldShape(BaseModel):
    """A field of the fleet file that changes."""

    name: str
    before: str
    after: str


class ChangeShape(BaseModel):
    """What becomes of one object of the fleet."""

    kind: str
    action: str
    name: str
    fields: list[FieldShape]


class PlanShape(BaseModel):
    """What applying a fleet file does, or did."""

    applied: bool
    is_empty: bool = Field(description="There is nothing to change.")
    lines: list[str] = Field(description="The plan for a person.")
    changes: list[ChangeShape]


class WebhookShape(BaseModel):
    """A receiver of changes of events, and how it does."""

    webhook: str
    tenant: str | None = Field(description="Whose events it hears of; null: all.")
    url: str = Field(description="Without what may be secret in it.")
    state: str = Field(description="idle, sending, failing, gone, or no such tenant.")
    pending: int = Field(description="Messages that wait for it.")
    oldest: str | None = Field(description="When the next message was written.")
    delivered: int = Field(description="Messages that it took since the start.")
    dropped: int = Field(description="Messages that were given up since the start.")
    failures: int = Field(description="In a row.")
    last_delivered: str | None
    last_failed: str | None
    last_error: str | None
    next_try: str | None


class WebhookList(BaseModel):
    """All receivers."""

    webhooks: list[WebhookShape]


class WebhookTestShape(BaseModel):
    """What came of a ping."""

    webhook: str
    delivered: bool
    status: int | None = Field(description="Of the answer; null: there was none.")
    error: str | None
    seconds: float


class TokenShape(BaseModel):
    """A token of the operator API, without its secret."""

    id: str
    name: str
    tenant: str | None = Field(description="Whose VMs it is for; null: an operator's.")
    read_only: bool
    created: str
    created_by: str
    expires: str | None
    expired: bool
    last_used: str | None = Field(description="To the hour; null: not yet.")
    unauthenticated: bool = Field(
        description="Its maker presented neither a token nor credentials; it ends when "
        "the service starts with a token file."
    )


class NewTokenShape(TokenShape):
    """A token that was just made."""

    token: str = Field(description="Its text; it is told this once.")


class TokenPage(Page):
    """Some tokens, in order of their ids."""

    tokens: list[TokenShape]


class HealthShape(BaseModel):
    """Whether the service does its work."""

    alive: bool
    ready: bool
    problems: list[str]


class ProblemShape(BaseModel):
    """Every error."""

    error: str = Field(description="What is wrong, in a sentence.")
    hint: str = Field(description="What to do next; may be empty.")
    kind: str = Field(description="Which of a few kinds it is, for programs.")
    problems: list[dict[str, Any]] | None = Field(
        default=None, description="Each place that is wrong, where there are several."
    )
