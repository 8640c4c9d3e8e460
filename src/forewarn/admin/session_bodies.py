"""Bodies and responses of the routes for sessions of the console."""

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from forewarn.admin import bodies, limits
from forewarn.admin.shapes import shape
from forewarn.control.sessions import ID_DIGITS, TEXT_CHARACTERS_MAX

_PassId = Annotated[str, StringConstraints(pattern=f"^[0-9a-f]{{{ID_DIGITS}}}$")]


class Login(BaseModel):
    """The beginning of a session, with a token or a link."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"token": "fw_…"}]}
    )

    token: str = Field(
        default="",
        max_length=TEXT_CHARACTERS_MAX,
        description="A token of an operator or a tenant.",
        repr=False,
    )
    link: str = Field(
        default="",
        max_length=TEXT_CHARACTERS_MAX,
        description="The secret of a link, which works once.",
        repr=False,
    )

    @model_validator(mode="after")
    def _has_one(self) -> Self:
        if bool(self.token) is bool(self.link):
            raise ValueError("give either a token or a link")
        return self


class EmptyBody(BaseModel):
    """A request without arguments."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{}]})


class TokenUses(BaseModel):
    """Tokens that were used; the API itself sends it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    token_ids: list[bodies.Name] = Field(
        min_length=1, max_length=limits.USES_TOGETHER_MAX
    )


class EndedPass(BaseModel):
    """A session or link that ends early; the API itself sends it."""

    model_config = ConfigDict(extra="forbid")

    pass_id: _PassId
    ends_at: int = Field(ge=0)


SessionShape = shape(
    "SessionShape",
    "The caller, and what this service offers.",
    name=(str, "The caller's name in the history; a tenant's begins with the tenant."),
    tenant=(str | None, "The tenant of the token; null for an operator."),
    roles=(list[str], "The caller's roles."),
    read_only=(bool, "Whether the caller can only read."),
    orders=(
        list[str],
        (
            "The requests that the roles do not refuse, such as `campaign-pause` or "
            "`approve`."
        ),
    ),
    identified_by=(
        str,
        (
            "`session`: a session of the console; `token`: a bearer token; `user`: a local "
            "user at the Unix socket; `nothing`: no token is needed on loopback."
        ),
    ),
    expires=(str | None, "The end of the session or the token; null: it has none."),
    now=(str, "The time of the service."),
    version=(str, "The version of the service."),
    features=(list[str], "The optional parts of the API that this service has."),
)

SessionEndShape = shape(
    "SessionEndShape",
    "The end of a session.",
    ended=(
        bool,
        (
            "Whether the session is over at all replicas. False: there was none, or this "
            "replica follows; then the browser loses its cookie, and only this replica "
            "refuses a copy of it."
        ),
    ),
)

LinkShape = shape(
    "LinkShape",
    "A link that begins a session of its creator's rights.",
    link=(str, "The secret of the link, which works once."),
    path=(str, "The path to open, with the secret after `#`, where no log has it."),
    expires=(str, "The time until which the link can be opened."),
)
