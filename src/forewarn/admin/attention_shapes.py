"""What answers of `attention` look like, for /openapi.json only."""

from pydantic import BaseModel, Field

from forewarn.admin.shapes import Page


class BlockerShape(BaseModel):
    """One reason why something waits; what does not apply is null."""

    kind: str
    text: str = Field(description="The reason as a sentence.")
    remedy: str = Field(
        description="Who can end it: operator, tenant, service (it ends when other "
        "work ends) or clock."
    )
    tenant: str | None
    scope: str | None
    event: str | None
    vm: str | None
    host: str | None
    operation: str | None
    until: str | None = Field(
        description="When it ends by itself, where that is known."
    )


class ExplainedOperation(BaseModel):
    """An open operation of what is explained."""

    operation: str
    what: str
    state: str
    standing: str
    blocked_by: list[str]


class ExplanationShape(BaseModel):
    """Where something is, and every reason why it waits."""

    kind: str = Field(description="operation, rollout, request, event, host or vm.")
    id: str
    what: str
    state: str
    standing: str
    blocked_by: list[str] = Field(
        description="The reasons as sentences; those that somebody can end come first."
    )
    blockers: list[BlockerShape] = Field(description="The same reasons as values.")
    note: str
    no_driver_call: bool = Field(
        description="It was carried out without a driver call: nothing was done."
    )
    counts: dict[str, int] = Field(
        description="Of a rollout: its operations by state; of anything else empty."
    )
    operations: list[ExplainedOperation] = Field(
        description="The first open operations that concern it."
    )


class ProblemEntry(BaseModel):
    """One thing that needs somebody."""

    problem: str = Field(description="Its id, the same as long as it lasts.")
    kind: str
    since: str | None
    text: str
    actions: list[str] = Field(description="Commands that may end it.")
    operation: str | None
    target: str | None = Field(description="The host or VM that the operation is for.")
    tenants: list[str]
    scopes: list[str]
    vms: list[str]
    hosts: list[str]
    events: list[str]
    webhook: str | None


class ProblemPage(Page):
    """Problems, the worst first."""

    problems: list[ProblemEntry]
    counts: dict[str, int] = Field(
        description="Of each kind, how many match in all pages."
    )


class WaitShape(BaseModel):
    """What waits for one tenant's approval."""

    tenant: str
    events: int
    vms: int
    hosts: int = Field(description="A tenant is told 0.")
    scopes: int
    scopes_enabled: int = Field(description="Scopes with Scheduled Events enabled.")
    enabled: bool = Field(description="At least one of the scopes can approve.")
    since: str
    not_before: str = Field(description="When the first starts without approval.")
    last_poll: str | None


class WaitSums(BaseModel):
    """How much waits altogether."""

    tenants: int
    events: int
    vms: int
    hosts: int


class WaitPage(Page):
    """Tenants whose approval is missing, the longest wait first."""

    waits: list[WaitShape]
    sums: WaitSums
    complete: bool = Field(description="False: too many events to sum up all.")


class ZoneShape(BaseModel):
    """The places of one zone."""

    zone: str
    hosts: int
    down: int
    in_work: int
    unlimited: int = Field(description="Hosts without a capacity; in no other sum.")
    places: int
    used: int
    free: int = Field(description="Places of hosts that can take a VM now.")


class NextHost(BaseModel):
    """What the next host of a rollout needs."""

    rollout: str
    operation: str
    host: str
    zone: str
    vms: int
    needs: int = Field(description="VMs that must find another host.")
    fits: bool = Field(description="There is a destination for each.")
    blockers: list[BlockerShape]


class CapacityPage(Page):
    """Places by zone, and what is needed next."""

    zones: list[ZoneShape]
    next_hosts: list[NextHost]
    complete: bool = Field(description="False: too many hosts to sum up all.")
