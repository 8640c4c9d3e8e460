"""Request and response models of the simulator's routes, also for /openapi.json."""

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
"""Maximum characters of a playbook on one line: hundreds of steps."""

PAGE = 1_000
"""Maximum number of journal entries in one response."""

SOURCES = {EventType.TERMINATE: EventSource.USER}
"""Default sources of event types; the source of all other types is the platform."""

STOPS = {stop.value.lower(): stop for stop in Stop}


def _example(**members: Any) -> ConfigDict:
    return ConfigDict(
        extra="forbid", frozen=True, json_schema_extra={"examples": [members]}
    )


class Clock(Order):
    """A change of the clock."""

    model_config = _example(do="jump", by="10m")

    do: Literal["pause", "resume", "step", "jump"] = Field(
        description="Pause, resume, go to the next timer, or let time pass at once."
    )
    by: Duration | None = Field(
        default=None, description="With `jump`: the length of the jump, in real time."
    )

    def length(self) -> Micros:
        """Return the length of the jump; raises BadRequestError."""
        if self.do == "jump" and self.by is None:
            raise BadRequestError("`jump` needs `by`", hint="Set `by`, such as 10m.")
        if self.do != "jump" and self.by is not None:
            raise BadRequestError(f"{self.do} takes no `by`; only `jump` does")
        return 0 if self.by is None else parse_duration(self.by)


class Event(Order):
    """An event to publish, even if the rules of notice forbid it."""

    model_config = _example(type="Preempt", vms=["web_0"], notice="30s")

    type: Literal["Freeze", "Reboot", "Redeploy", "Preempt", "Terminate"] = Field(
        description="EventType."
    )
    vms: Names = Field(description="The VMs' names in the fleet.")
    source: Literal["Platform", "User"] | None = Field(
        default=None,
        description="EventSource. Default: User for Terminate, Platform for all others.",
    )
    notice: Duration | None = Field(
        default=None,
        description="Time until NotBefore, in real time; 0 is Started at once. "
        "Default: the notice of the type, divided by the speed.",
    )
    duration: Seconds | None = Field(
        default=None,
        description="DurationInSeconds, such as 5s, or whole seconds without a unit; "
        "-1 is unknown.",
    )
    description: Text | None = Field(
        default=None, description="Description, instead of the default one."
    )
    migrate: bool = Field(
        default=False, description="A Freeze that moves the VMs to other hosts."
    )

    def wanted(self, policy: Policy, *, terminate_notice: Micros) -> Staged:
        """Return the event; `terminate_notice` is the notice of its scope."""
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
    """A state to move an operation to."""

    model_config = _example(to="started")

    to: Literal["started", "recovering", "removed", "cancelled"] = Field(
        description="The new state: Started, impact over, events removed, or cancelled."
    )


class Approvals(Order):
    """Body of a request to withhold or release the approvals of VMs."""

    model_config = _example(do="withhold", vms=["web_0"])

    do: Literal["withhold", "release"] = Field(
        description="Withhold the approvals of the VMs from now on, or release them."
    )
    vms: Names = Field(description="The VMs' names in the fleet.")


class Vm(Order):
    """A VM to add to the fleet."""

    model_config = _example(name="web_9", scope="web")

    name: Name = Field(description="Its unique name.")
    host: str = Field(
        default="",
        max_length=NAME_CHARACTERS_MAX,
        description="Empty: a new host.",
    )
    scope: str = Field(
        default="",
        max_length=NAME_CHARACTERS_MAX,
        description="Empty: the scope of the first VM.",
    )
    standalone: bool = Field(
        default=False,
        description="Use a separate scope: the VM sees only its own events.",
    )
    fault_domain: int | None = Field(
        default=None, ge=0, description="Default: the fault domain with the fewest VMs."
    )
    spot: bool = Field(default=False, description="The VM can be evicted.")

    def new(self) -> NewVm:
        """Return the VM to add."""
        return NewVm(
            name=self.name,
            host=self.host,
            scope=self.scope,
            standalone=self.standalone,
            fault_domain=self.fault_domain,
            spot=self.spot,
        )


class Faults(Order):
    """Faults to add."""

    model_config = _example(vms=["web_0"], faults="500 x2, timeout, empty")

    faults: str = Field(
        min_length=1,
        max_length=FAULT_CHARACTERS_MAX,
        description="A fault, or a playbook of several; the page 'Faults' has the syntax.",
    )
    vms: list[Name] = Field(
        default_factory=list[str],
        max_length=TARGETS_MAX,
        description="The VMs; empty: all.",
    )


class ClearFaults(Order):
    """VMs whose faults are cleared."""

    model_config = _example(vms=["web_0"])

    vms: list[Name] = Field(
        default_factory=list[str],
        max_length=TARGETS_MAX,
        description="The VMs; empty: all.",
    )


class Reset(Order):
    """A restart of the simulation."""

    model_config = _example(reason="the next test")


class JournalQuery(BaseModel):
    """A filter for the journal."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    vm: str = Field(default="", description="Only requests of this VM.")
    method: str = Field(default="", description="Only this method: GET or POST.")
    event: str = Field(default="", description="Only approvals of this event.")
    after: int = Field(
        default=0,
        ge=0,
        description="Only later requests: `next` of a previous response.",
    )
    deviating: bool = Field(
        default=False, description="Only requests that deviate from the protocol."
    )
    limit: int = Field(default=PAGE, ge=1, le=PAGE)


class ClockShape(BaseModel):
    """The clock of a simulation."""

    now: str
    paused: bool
    speed: float = Field(description="The divisor of notices and impacts.")
    next: str | None = Field(description="When the next timer fires; null: no timer.")


class VmShape(BaseModel):
    """A VM and its address."""

    vm: str
    url: str | None = Field(description="FOREWARN_ENDPOINT of its programs.")
    state: str
    host: str
    scope: str
    withheld: bool = Field(description="Whether the VM's approvals are withheld.")


class VmsShape(BaseModel):
    """All VMs."""

    vms: list[VmShape]


class ApprovalsShape(BaseModel):
    """The VMs whose approvals are withheld."""

    withheld: list[str]
    refusals: list[str] = Field(
        description="Reasons why released approvals no longer counted."
    )


class PlaybookShape(BaseModel):
    """A playbook of faults."""

    name: str
    vms: list[str] = Field(description="Empty: every VM.")
    faults: list[str]
    loop: bool
    played: int = Field(description="Number of requests that the fault hit.")
    over: bool = Field(
        description="Whether each VM that it names has finished it; never if it loops."
    )


class FaultsShape(BaseModel):
    """All faults."""

    faults: list[PlaybookShape]


class JournalShape(BaseModel):
    """Requests in the journal."""

    requests: list[dict[str, Any]]
    next: int = Field(description="Value of `after` for a request for later entries.")
