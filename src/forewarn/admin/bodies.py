"""Models of request bodies: checked here, and described in /openapi.json.

The times in a request are as a person writes them: a duration such as `15m`, or an
instant in RFC 3339. They become numbers when the request is executed, because `+15m`
counts from then.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    WithJsonSchema,
    create_model,
    model_validator,
)

from forewarn.admin.limits import (
    FLEET_BYTES_MAX,
    NAME_CHARACTERS_MAX,
    ORDER_BYTES_MAX,
    TEXT_CHARACTERS_MAX,
)
from forewarn.campaigns.simulated import SEED_MAX
from forewarn.campaigns.text import PLAN_HOSTS_MAX
from forewarn.control.tokens import DEFAULT_LIFETIME
from forewarn.fleet.sources import REMOVALS_MAX, removals_of
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
from forewarn.verbs.arguments import REASON
from forewarn.verbs.model import (
    TARGETS_MAX,
    Argument,
    Entry,
    Form,
    Kind,
    Value,
    VerbRequest,
)
from forewarn.verbs.roles import ALL_ROLES, READ_ONLY, TENANT_ROLES, Role, role_names
from forewarn.verbs.table import VERBS


def when(text: str, *, now: Micros) -> Micros:
    """Return the instant in `text`: RFC 3339, or `+15m` from `now`.

    Raises ValueError, also for an instant more than ten years ahead.
    """
    stripped = text.strip()
    if stripped.startswith("+"):
        return now + parse_duration(stripped[1:])
    instant = parse_instant(stripped)
    if instant > now + DURATION_MAX:
        raise ValueError(f"{text!r} is more than ten years ahead")
    return instant


def _readable_when(text: str) -> str:
    """Refuse a text that `when` would refuse for any `now`."""
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
    """Return `5s` as 5: whole seconds, as on the wire.

    A number without a unit is valid only here, because DurationInSeconds has its own
    unit.
    """
    if isinstance(value, str):
        if _WHOLE.fullmatch(value.strip()):
            return int(value)
        return -(-parse_duration(value) // SECOND)
    if isinstance(value, bool):
        raise ValueError("true and false are not durations")  # noqa: TRY004
    return value


Name = Annotated[str, StringConstraints(min_length=1, max_length=NAME_CHARACTERS_MAX)]
Names = Annotated[
    list[Name], Field(min_length=1, json_schema_extra={"maxItems": TARGETS_MAX})
]
"""Targets of a request. Control refuses more than the maximum, with a hint."""


def _readable_removals(text: str) -> str:
    removals_of(text)
    return text


Text = Annotated[
    str,
    StringConstraints(max_length=TEXT_CHARACTERS_MAX),
    AfterValidator(_readable_text),
]
"""A text for people: in the history, in logs and in documents."""

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


Removals = Annotated[
    str,
    StringConstraints(max_length=NAME_CHARACTERS_MAX),
    AfterValidator(_readable_removals),
]


class Order(BaseModel):
    """The members that each request has."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    reason: Text = Field(default="", description=REASON.about)


class OrderWithDryRun(Order):
    """The members of a request that can be a dry run."""

    dry_run: bool = Field(
        default=False,
        description="Change nothing, and return the effect that the request would have.",
    )


class Steering(OrderWithDryRun):
    """The members of a request about a campaign."""

    revision: Annotated[str, StringConstraints(max_length=NAME_CHARACTERS_MAX)] = Field(
        default="",
        description="`revision` of the campaign that the caller has seen. After another "
        "decision about it, the request is refused. Empty: it is not compared.",
    )


_TYPES: Mapping[Form, Any] = {
    Form.TEXT: Text,
    Form.NAME: Name,
    Form.NAMES: Annotated[list[Name], Field(max_length=TARGETS_MAX)],
    Form.LINES: Annotated[list[Text], Field(min_length=1, max_length=TARGETS_MAX)],
    Form.SWITCH: bool,
    Form.COUNT: Annotated[int, Field(ge=1, le=TARGETS_MAX)],
    Form.DURATION: Duration,
    Form.SECONDS: Seconds,
    Form.MOMENT: When,
}
"""The type of a body's member for each form of an argument, except WORD."""


def _field(argument: Argument) -> tuple[Any, Any]:
    # The words of a verb are data, so a type checker does not know them.
    words: Any = Literal
    is_word = argument.form is Form.WORD
    type_ = words[argument.words] if is_word else _TYPES[argument.form]
    return type_ if argument.is_needed else type_ | None, Field(
        default=... if argument.is_needed else None,
        description=argument.about,
        examples=[argument.example] if argument.example else None,
    )


def _body_of(entry: Entry) -> type[Order]:
    """Return the model of a verb's body."""
    targets = entry.targets
    members: dict[str, Any] = {
        targets.key: (
            Names if targets.is_list else Name,
            Field(description=targets.about),
        ),
        **{argument.key: _field(argument) for argument in entry.arguments},
    }
    name = entry.name.title().replace("-", "")
    model: type[Order] = create_model(
        name,
        __base__=Steering if targets.kind is Kind.CAMPAIGN else OrderWithDryRun,
        __doc__=entry.text,
        **members,
    )
    example = cast("dict[str, Any]", entry.body)
    model.model_config["json_schema_extra"] = {"examples": [example]}
    return model


class HostCordoning(OrderWithDryRun):
    """The request to cordon one host."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"reason": "bad DIMM"}]},
    )


class HostOpening(OrderWithDryRun):
    """The request to open one host."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"reason": "DIMM replaced"}]},
    )

    all_owners: bool = Field(
        default=False, description="Also remove the cordons of others."
    )


BODIES: Mapping[str, type[Order]] = {name: _body_of(VERBS[name]) for name in VERBS}
"""The body of each verb of the table."""


def given_of(entry: Entry, body: BaseModel, *, now: Micros) -> VerbRequest:
    """Return the verb's targets and arguments from its body; raises BadRequestError."""
    members = body.model_dump()
    targets = members[entry.targets.key]
    values = {
        argument.key: _value(argument, members[argument.key], now)
        for argument in entry.arguments
        if members[argument.key] is not None
    }
    return VerbRequest(
        targets=tuple(targets) if entry.targets.is_list else (targets,), values=values
    )


def _value(argument: Argument, said: Any, now: Micros) -> Value:
    if argument.form is Form.DURATION:
        return parse_duration(said)
    if argument.form in {Form.NAMES, Form.LINES}:
        return tuple(said)
    if argument.form is not Form.MOMENT:
        return said
    try:
        return when(said, now=now)
    except ValueError as error:
        raise BadRequestError(f"{argument.key}: {error}") from error


class BrakeOrder(OrderWithDryRun):
    """The request to put the brake on or take it off."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"on": True, "reason": "power is unstable"}]}
    )

    on: bool = Field(description="Whether the brake is on afterwards.")
    withdraw: bool = Field(
        default=False,
        description="Whether to withdraw announced planned work, instead of holding it.",
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
        description="Name of the token's holder in the history. No other valid "
        "token can have it. Default: a name made from the token's ID.",
    )
    tenant: Annotated[str, StringConstraints(max_length=NAME_CHARACTERS_MAX)] = Field(
        default="",
        description="The tenant of the token. Empty: an operator token, for all.",
    )
    relay: Annotated[str, StringConstraints(max_length=NAME_CHARACTERS_MAX)] = Field(
        default="",
        description="The host whose relay holds the token. It can do nothing except what "
        "the relay of this host does, and by default it does not expire.",
    )
    read_only: bool = Field(
        default=False,
        description="Whether the token can only read: short for the role `view`.",
    )
    roles: list[Literal["view", "plan", "run", "approve", "emergency"]] = Field(
        default=[],
        max_length=len(ALL_ROLES),
        description="The roles of the token; each includes `view`. Empty: all roles, "
        f"which are {role_names(TENANT_ROLES)} for a tenant.",
    )
    expires_in: Duration | Literal["never"] | None = Field(
        default=None,
        description="Lifetime, or `never`. Default: "
        f"{format_duration(DEFAULT_LIFETIME)}.",
    )

    @model_validator(mode="after")
    def _is_clear(self) -> Self:
        if self.read_only and self.roles:
            raise ValueError("read_only cannot be combined with roles")
        if self.relay and (self.tenant or self.read_only or self.roles):
            raise ValueError("relay cannot be combined with tenant, read_only or roles")
        return self

    @property
    def wanted_roles(self) -> tuple[Role, ...]:
        """Return the roles, or nothing for all."""
        return READ_ONLY if self.read_only else tuple(map(Role, self.roles))

    @property
    def lifetime(self) -> Micros | None:
        """Return the lifetime of the token; None if it does not expire."""
        if self.expires_in is None:
            # All relays would stop on one day, if their tokens were created together.
            return None if self.relay else DEFAULT_LIFETIME
        return None if self.expires_in == "never" else parse_duration(self.expires_in)


class RevokeToken(Order):
    """The token to revoke."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"id": "tk-4h7k2m9xqa"}]})

    id: Name = Field(description="ID of the token in the list.")


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
        # The bytes are counted when they arrive. The bound makes sure that it is text:
        # JSON can contain half a character, which no response could contain.
        max_length=FLEET_BYTES_MAX,
        description="The file's text: TOML.",
    )
    allow_empty: bool = Field(
        default=False,
        description="Accept an empty file, which removes everything.",
    )
    inventory: bool = Field(
        default=False,
        description="The file is the output of `fleet discover`. It is merged separately "
        "from the files of authors.",
    )
    removals_max: Removals = Field(
        default=REMOVALS_MAX,
        description="With `inventory`: maximum hosts, and maximum VMs, that may be removed, "
        "as a number or a percentage of those that came from an inventory.",
    )


class CampaignFile(BaseModel):
    """A campaign file."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra={
            "examples": [
                {
                    "name": "bios.toml",
                    "text": '[campaign]\nname = "bios-2.19"\nreason = "CVE-2026-1234"\n'
                    'impact = "reboot"\nselect = { all = true }\n',
                }
            ]
        },
    )

    name: Name = Field(
        default="campaign.toml", description="The file's name, for messages."
    )
    text: str = Field(max_length=ORDER_BYTES_MAX, description="The file's text: TOML.")
    hosts_max: int = Field(
        default=1_000,
        ge=0,
        le=PLAN_HOSTS_MAX,
        description="Maximum hosts in `hosts`.",
    )


class CampaignSimulation(CampaignFile):
    """A campaign file, and what its simulation assumes."""

    approve_percent: float | None = Field(
        default=None,
        ge=0,
        le=100,
        description="Share of the scopes that approve, after a random part of the notice. "
        "Absent: tenants approve as fast as was measured, or 70 % of the scopes if it was "
        "not.",
    )
    failure_percent: float = Field(
        default=0.0,
        ge=0,
        le=100,
        description="Share of the hosts whose work fails.",
    )
    seed: int = Field(
        default=1,
        ge=0,
        le=SEED_MAX,
        description="Number that all chances follow from.",
    )


class CampaignStart(OrderWithDryRun):
    """The campaign to start."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "bios.toml",
                    "text": '[campaign]\nname = "bios-2.19"\nreason = "CVE-2026-1234"\n'
                    'impact = "reboot"\nselect = { all = true }\n',
                    "digest": "9f31c0a45be2d708",
                }
            ]
        }
    )

    name: Name = Field(
        default="campaign.toml", description="The file's name, for messages."
    )
    text: str = Field(max_length=ORDER_BYTES_MAX, description="The file's text: TOML.")
    digest: Name = Field(description="`digest` of the plan of the file.")


class WebhookTest(BaseModel):
    """The receiver to test."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra={"examples": [{"name": "shop-oncall"}]},
    )

    name: Name = Field(description="The receiver's name in the settings.")
