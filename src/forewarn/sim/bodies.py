"""What orders to a simulator look like, checked once and described for /openapi.json."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from forewarn.admin.bodies import Duration, Name, Names, Order, Seconds, Text
from forewarn.admin.limits import NAME_CHARACTERS_MAX
from forewarn.control.requests.verbs import TARGETS_MAX
from forewarn.control.rules.policy import Policy
from forewarn.instants import Micros, parse_duration
from forewarn.protocol.errors import BadRequestError
from forewarn.protocol.events import EventSource, EventType
from forewarn.sim.staged import Staged, Stop
from forewarn.sim.vms import NewVm

FAULT_CHARACTERS_MAX = 10_000
"""Of a playbook on one line: hundreds of steps."""

PAGE = 1_000
"""Requests of the journal in one answer."""

SOURCES = {EventType.TERMINATE: EventSource.USER}
"""Who is behind an event, unless somebody says; of all others it is the platform."""

STOPS = {stop.value.lower(): stop for stop in Stop}


def _example(**members: Any) -> ConfigDict:
    return ConfigDict(
        extra="forbid", frozen=True, json_schema_extra={"examples": [members]}
    )


class Clock(Order):
    """What the clock shall do."""

    model_config = _example(do="jump", by="10m")

    do: Literal["pause", "resume", "step", "jump"] = Field(
        description="Stand still, go on, go to the next timer, or let time pass at once."
    )
    by: Duration | None = Field(
        default=None, description="With `jump`: how much time passes, by the clock."
    )

    def length(self) -> Micros:
        """Return how far it jumps; raises BadRequestError."""
        if self.do == "jump" and self.by is None:
            raise BadRequestError("a jump needs `by`: how far", hint="such as 10m")
        if self.do != "jump" and self.by is not None:
            raise BadRequestError(f"{self.do} takes no `by`: only a jump has a length")
        return 0 if self.by is None else parse_duration(self.by)


class Event(Order):
    """An event that is staged by hand, whatever the rules of notice say."""

    model_config = _example(type="Preempt", vms=["web_0"], notice="30s")

    type: Literal["Freeze", "Reboot", "Redeploy", "Preempt", "Terminate"] = Field(
        description="EventType."
    )
    vms: Names = Field(description="The VMs' names in the fleet.")
    source: Literal["Platform", "User"] | None = Field(
        default=None,
        description="EventSource; absent: User for Terminate, Platform for all others.",
    )
    notice: Duration | None = Field(
        default=None,
        description="From now until NotBefore, by the clock; 0 is Started at once. "
        "Absent: what the type usually has, divided by the speed.",
    )
    duration: Seconds | None = Field(
        default=None,
        description="DurationInSeconds, as 5s, or as whole seconds without a unit; "
        "-1 is unknown.",
    )
    description: Text | None = Field(
        default=None, description="Description, instead of the usual one."
    )
    migrate: bool = Field(
        default=False, description="A Freeze that moves the VMs to other hosts."
    )

    def wanted(self, policy: Policy, *, terminate_notice: Micros) -> Staged:
        """Return the event; `terminate_notice` is what its scope's file says."""
        kind = EventType(self.type)
        usual = SOURCES.get(kind, EventSource.PLATFORM)
        if self.notice is not None:
            notice = parse_duration(self.notice)
        elif kind is EventType.TERMINATE:
            notice = policy.terminate_notice_of(terminate_notice)
        else:
            notice = policy.notice_for(kind)
        return Staged(
            event_type=kind,
            vms=tuple(self.vms),
            source=EventSource(self.source) if self.source else usual,
            notice=notice,
            duration_seconds=self.duration,
            description=self.description,
            migrates=self.migrate,
        )


class Move(Order):
    """Where an operation shall be."""

    model_config = _example(to="started")

    to: Literal["started", "recovering", "removed", "cancelled"] = Field(
        description="Started; its impact over; its events gone; or cancelled."
    )


class Approvals(Order):
    """Whether approvals of a VM count."""

    model_config = _example(do="withhold", vms=["web_0"])

    do: Literal["withhold", "release"] = Field(
        description="Keep back what the VMs approve from now on, or let it all go."
    )
    vms: Names = Field(description="The VMs' names in the fleet.")


class Vm(Order):
    """A VM that joins the fleet."""

    model_config = _example(name="web_9", scope="web")

    name: Name = Field(description="Its name, which nobody else has.")
    host: str = Field(
        default="",
        max_length=NAME_CHARACTERS_MAX,
        description="Empty: a new host of its own.",
    )
    scope: str = Field(
        default="",
        max_length=NAME_CHARACTERS_MAX,
        description="Empty: that of the fleet's first VM.",
    )
    standalone: bool = Field(
        default=False, description="In a scope of its own: it sees its own events only."
    )
    fault_domain: int | None = Field(
        default=None, ge=0, description="Absent: the one with the fewest VMs."
    )
    spot: bool = Field(default=False, description="It may be evicted.")

    def new(self) -> NewVm:
        """Return the VM as it joins."""
        return NewVm(
            name=self.name,
            host=self.host,
            scope=self.scope,
            standalone=self.standalone,
            fault_domain=self.fault_domain,
            spot=self.spot,
        )


class Faults(Order):
    """Answers that go wrong from now on."""

    model_config = _example(vms=["web_0"], faults="500 x2, timeout, empty")

    faults: str = Field(
        min_length=1,
        max_length=FAULT_CHARACTERS_MAX,
        description="A fault, or a playbook of several, as the page 'Faults' has them.",
    )
    vms: list[Name] = Field(
        default_factory=list[str],
        max_length=TARGETS_MAX,
        description="Whose answers; empty: every VM's.",
    )


class ClearFaults(Order):
    """Answers that are good again."""

    model_config = _example(vms=["web_0"])

    vms: list[Name] = Field(
        default_factory=list[str],
        max_length=TARGETS_MAX,
        description="Whose answers; empty: every VM's.",
    )


class Reset(Order):
    """A world that begins again."""

    model_config = _example(reason="the next test")


class JournalQuery(BaseModel):
    """Which requests are listed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    vm: str = Field(default="", description="Only this VM's.")
    method: str = Field(default="", description="Only this verb: GET or POST.")
    event: str = Field(default="", description="Only approvals of this event.")
    after: int = Field(
        default=0, ge=0, description="Only what came later: `next` of an answer."
    )
    deviating: bool = Field(
        default=False, description="Only what deviates from the protocol."
    )
    limit: int = Field(default=PAGE, ge=1, le=PAGE)


class ClockShape(BaseModel):
    """The clock of a simulation."""

    now: str
    paused: bool
    speed: float = Field(description="What notices and impacts were divided by.")
    next: str | None = Field(description="When the next timer goes off; null: none.")


class VmShape(BaseModel):
    """A VM and where it is served."""

    vm: str
    url: str | None = Field(description="FOREWARN_ENDPOINT of its programs.")
    state: str
    host: str
    scope: str
    withheld: bool = Field(description="Whether its approvals are kept back.")


class VmsShape(BaseModel):
    """All VMs."""

    vms: list[VmShape]


class ApprovalsShape(BaseModel):
    """Whose approvals are kept back."""

    withheld: list[str]
    refusals: list[str] = Field(
        description="Of approvals that were let go: why they did not count any more."
    )


class PlaybookShape(BaseModel):
    """Faults that are set."""

    name: str
    vms: list[str] = Field(description="Empty: every VM.")
    faults: list[str]
    loop: bool
    played: int = Field(description="Requests that it hit.")


class FaultsShape(BaseModel):
    """All faults that are set."""

    faults: list[PlaybookShape]


class JournalShape(BaseModel):
    """Requests that were seen."""

    requests: list[dict[str, Any]]
    next: int = Field(description="`after` of a question for what comes later.")
