"""What answers look like, for /openapi.json only: nothing is checked by these.

The values come from `control.reports`; a test compares the names.
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
    scopes: list[str]
    note: str
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


class ExplanationShape(BaseModel):
    """Where an operation stands, and every reason why it does not go on."""

    operation: str
    what: str
    state: str
    standing: str
    blocked_by: list[str]
    reasons: list[str] = Field(description="The kind of each reason, for programs.")
    note: str


class EntryShape(BaseModel):
    """A line of the history."""

    id: str
    at: str
    actor: str
    what: str
    why: str
    detail: str
    subjects: list[str]


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


class HistoryPage(Page):
    """Some lines of the history, the oldest first."""

    entries: list[EntryShape]


class CancelledShape(BaseModel):
    """What was cancelled."""

    cancelled: list[OperationShape]


class RestoredShape(BaseModel):
    """What is up again."""

    kind: str = Field(description="host or vm.")
    name: str
    state: str


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
