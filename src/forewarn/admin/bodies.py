"""What orders look like: checked once, here, and described for /openapi.json.

An order's times are what a person types: a duration such as `15m`, or an instant
in RFC 3339. They become numbers only when the order is carried out, because
`+15m` counts from then.
"""

import re
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    WithJsonSchema,
)

from forewarn.admin.limits import (
    FLEET_BYTES_MAX,
    NAME_CHARACTERS_MAX,
    TEXT_CHARACTERS_MAX,
)
from forewarn.control.requests.verbs import TARGETS_MAX, OrderOptions
from forewarn.control.tokens import DEFAULT_LIFETIME
from forewarn.instants import (
    DURATION_MAX,
    SECOND,
    Micros,
    format_duration,
    parse_duration,
    parse_instant,
)
from forewarn.protocol.errors import BadRequestError
from forewarn.protocol.events import DURATION_UNKNOWN
from forewarn.texts import fault_of


def when(text: str, *, now: Micros) -> Micros:
    """Return the instant that `text` names: RFC 3339, or `+15m` from `now`.

    Raises ValueError, also for what is more than ten years ahead.
    """
    stripped = text.strip()
    if stripped.startswith("+"):
        return now + parse_duration(stripped[1:])
    instant = parse_instant(stripped)
    if instant > now + DURATION_MAX:
        raise ValueError(f"{text!r} is more than ten years ahead")
    return instant


def _readable_when(text: str) -> str:
    """Refuse early what `when` would refuse for any `now`."""
    stripped = text.strip()
    if stripped.startswith("+"):
        parse_duration(stripped[1:])
    else:
        parse_instant(stripped)
    return stripped


def _readable_text(text: str) -> str:
    if fault := fault_of(text):
        raise ValueError(fault)
    return text


def _readable_duration(text: str) -> str:
    parse_duration(text)
    return text


_WHOLE = re.compile(r"-1|[0-9]{1,9}", re.ASCII)


def _seconds(value: object) -> object:
    """Turn `5s` into 5; whole seconds, since the wire has no others.

    Only here a number needs no unit: DurationInSeconds has its own.
    """
    if isinstance(value, str):
        if _WHOLE.fullmatch(value.strip()):
            return int(value)
        return -(-parse_duration(value) // SECOND)
    if isinstance(value, bool):
        raise ValueError("true and false are no durations")  # noqa: TRY004
    return value


Name = Annotated[str, StringConstraints(min_length=1, max_length=NAME_CHARACTERS_MAX)]
Names = Annotated[list[Name], Field(min_length=1, max_length=TARGETS_MAX)]
Text = Annotated[
    str,
    StringConstraints(max_length=TEXT_CHARACTERS_MAX),
    AfterValidator(_readable_text),
]
"""A text that people will read: in the history, in logs and in documents."""

When = Annotated[
    str,
    StringConstraints(max_length=NAME_CHARACTERS_MAX),
    AfterValidator(_readable_when),
]
Duration = Annotated[
    str,
    StringConstraints(max_length=NAME_CHARACTERS_MAX),
    AfterValidator(_readable_duration),
]
Seconds = Annotated[
    int,
    BeforeValidator(_seconds),
    Field(ge=DURATION_UNKNOWN, le=DURATION_MAX // SECOND),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "integer", "minimum": -1}]}),
]


class Order(BaseModel):
    """What every order may say."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    reason: Text = Field(
        default="", description="Why; it is kept in the history of what it causes."
    )


class WishedOrder(Order):
    """An order of which the operator may say some things otherwise."""

    not_before: When | None = Field(
        default=None,
        description="NotBefore, when it starts if not all approve earlier: RFC 3339, or "
        "+DURATION from now. Never with less than the least notice.",
        examples=["+30m"],
    )
    description: Text | None = Field(
        default=None, description="Description of the events, instead of the usual one."
    )

    def wishes(self, *, now: Micros) -> OrderOptions:
        """Return what the order says otherwise; raises BadRequestError."""
        return OrderOptions(
            not_before=self.start(now=now), description=self.description
        )

    def start(self, *, now: Micros) -> Micros | None:
        """Return NotBefore, if it is given; raises BadRequestError."""
        if self.not_before is None:
            return None
        try:
            return when(self.not_before, now=now)
        except ValueError as error:
            raise BadRequestError(f"not_before: {error}") from error


class Maintain(WishedOrder):
    """Maintenance of hosts: one rollout, with an operation for each host."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "hosts": ["h1", "h2"],
                    "impact": "live-migrate",
                    "not_before": "+1h",
                    "at_once": 1,
                    "reason": "firmware 2.4",
                }
            ]
        }
    )

    hosts: Names = Field(description="The hosts; each becomes an operation.")
    impact: Literal["freeze", "live-migrate", "reboot", "redeploy"] = Field(
        description="What the maintenance does to the hosts' VMs."
    )
    duration: Seconds | None = Field(
        default=None,
        description="DurationInSeconds of the events, as 5s, or as whole "
        "seconds without a unit; -1 is unknown.",
        examples=["5s"],
    )
    emergency: bool = Field(
        default=False, description="It is an emergency repair: the description says so."
    )
    at_once: int | None = Field(
        default=None,
        ge=1,
        le=TARGETS_MAX,
        description="How many of the hosts are announced or worked on at once; none "
        "said: the service's setting policy.hosts_at_once.",
    )

    def wishes(self, *, now: Micros) -> OrderOptions:
        """Return what the order says otherwise; raises BadRequestError."""
        return OrderOptions(
            duration_seconds=self.duration,
            not_before=self.start(now=now),
            description=self.description,
            emergency=self.emergency,
            at_once=self.at_once,
        )


def _vms_example(*names: str) -> dict[str, Any]:
    return {"examples": [{"vms": list(names), "reason": "a ticket of theirs"}]}


class OfVms(WishedOrder):
    """An order about VMs."""

    model_config = ConfigDict(json_schema_extra=_vms_example("web_0", "web_1"))

    vms: Names = Field(description="The VMs' names in the fleet.")


class Target(Order):
    """A host or a VM that is down now, or is up again."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "h1"}]})

    name: Name = Field(description="The host's or the VM's name.")
    kind: Literal["host", "vm"] | None = Field(
        default=None, description="Needed only where a host and a VM share the name."
    )


class PredictFailure(WishedOrder):
    """A host that is expected to fail."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"host": "h1", "in": "3d"}]}
    )

    host: Name = Field(description="The host.")
    notice: Duration | None = Field(
        default=None,
        alias="in",
        description="How far ahead its VMs are told; as [timing] failure_notice says, "
        "where it is absent.",
    )

    def ahead(self, *, now: Micros, usual: Micros) -> Micros:
        """Return how long before the failure the VMs are told."""
        start = self.start(now=now)
        if start is not None:
            if self.notice is not None:
                raise BadRequestError("give `in` or `not_before`, not both")
            return start - now
        return usual if self.notice is None else parse_duration(self.notice)


class Cancel(Order):
    """An operation, or all of a rollout or request that has not started."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "op-w2147h2k9m4x3qa8"}]}
    )

    name: Name = Field(description="The id of an operation, rollout or request.")


class Approve(Order):
    """An approval on an operator's word."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"event_id": "C7061BAC-AFDC-4513-B24B-AA5F13A16123"}]
        }
    )

    event_id: Name = Field(description="The event's GUID, in any case.")
    as_vm: Annotated[str, StringConstraints(max_length=NAME_CHARACTERS_MAX)] = Field(
        default="", description="Approve in the place of this VM, which must see it."
    )


class Resolve(Order):
    """What became of an operation whose outcome nobody knows."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"operation": "op-w2147h2k9m4x3qa8", "outcome": "done"}]
        }
    )

    operation: Name = Field(description="The operation's id.")
    outcome: Literal["done", "failed"] = Field(description="What you have seen.")
    down: list[Name] = Field(
        default_factory=list[str],
        max_length=TARGETS_MAX,
        description="Its VMs that do not run; for `failed` only.",
    )


class NewToken(Order):
    """A token of the operator API."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"name": "ci", "read_only": True, "expires_in": "30d"}]
        }
    )

    name: Name | None = Field(
        default=None,
        description="Who holds it, as the history shows it: a name that no other good "
        "token has. Absent: a name made of its ID.",
    )
    tenant: Annotated[str, StringConstraints(max_length=NAME_CHARACTERS_MAX)] = Field(
        default="", description="Whose VMs it is for; empty: an operator's, for all."
    )
    read_only: bool = Field(default=False, description="It may order nothing.")
    expires_in: Duration | Literal["never"] | None = Field(
        default=None,
        description="After that it is good for nothing, or `never`; absent: "
        f"{format_duration(DEFAULT_LIFETIME)}.",
    )

    @property
    def lifetime(self) -> Micros | None:
        """Return how long it is good; None: for ever."""
        if self.expires_in is None:
            return DEFAULT_LIFETIME
        return None if self.expires_in == "never" else parse_duration(self.expires_in)


class RevokeToken(Order):
    """A token that shall be good for nothing."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"id": "tk-4h7k2m9xqa"}]})

    id: Name = Field(description="The token's id, as it is listed.")


class FleetText(Order):
    """A fleet file."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "fleet.toml",
                    "text": '[[host]]\nname = "h1"\n\n[[vm]]\nname = "web_0"\n'
                    'host = "h1"\n',
                }
            ]
        }
    )

    name: Name = Field(
        default="fleet.toml", description="The file's name, for messages."
    )
    text: str = Field(
        # Its bytes are counted where they come in; a bound makes sure that it is text,
        # since JSON can bring half a character, which no answer could tell.
        max_length=FLEET_BYTES_MAX,
        description="The file's text: TOML.",
    )
    allow_empty: bool = Field(
        default=False,
        description="A file without anything in it is meant, and removes everything.",
    )


class WebhookTest(BaseModel):
    """Which receiver is tried."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra={"examples": [{"name": "shop-oncall"}]},
    )

    name: Name = Field(description="The receiver's name in the settings.")
