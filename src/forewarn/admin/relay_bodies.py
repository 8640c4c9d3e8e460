"""The bodies of the requests of relays."""

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from forewarn.admin import bodies, limits


class RelayApproval(BaseModel):
    """An approval of one VM."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    vm: bodies.Name = Field(description="Name of the VM in the fleet.")
    event_ids: list[bodies.Name] = Field(
        min_length=1,
        max_length=limits.RELAY_EVENTS_MAX,
        description="The events: all of them are approved, or none.",
    )


class RelayApprovals(BaseModel):
    """Approvals of VMs on the host of the relay."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra={
            "examples": [
                {
                    "approvals": [
                        {
                            "vm": "web_0",
                            "event_ids": ["602D9444-D2CD-49C7-8624-8643E7171297"],
                        }
                    ]
                }
            ]
        },
    )

    approvals: list[RelayApproval] = Field(
        min_length=1, max_length=limits.RELAY_APPROVALS_MAX
    )


class RelayEnable(BaseModel):
    """VMs on the host of the relay that have requested their first documents."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra={"examples": [{"vm": "web_0"}, {"vms": ["web_0", "db_0"]}]},
    )

    vm: bodies.Name | None = Field(
        default=None, description="Name of the VM in the fleet, if it is one."
    )
    vms: list[bodies.Name] = Field(
        default=[],
        max_length=limits.RELAY_ENABLINGS_MAX,
        description="Names of the VMs in the fleet, if they are several.",
    )

    @model_validator(mode="after")
    def _names_vms_once(self) -> Self:
        if (self.vm is None) != bool(self.vms):
            raise ValueError("give either vm or vms")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all of them."""
        return tuple(self.vms) if self.vm is None else (self.vm,)


class RelaySeen(BaseModel):
    """How long ago VMs have requested their documents."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra={"examples": [{"seconds_ago": {"web_0": 3}}]},
    )

    seconds_ago: dict[bodies.Name, Annotated[int, Field(ge=0, le=10**9)]] = Field(
        max_length=limits.RELAY_VMS_MAX, description="Seconds, by the name of the VM."
    )


class RelayServed(BaseModel):
    """The position up to which a relay has applied all changes."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra={"examples": [{"position": "3.14.a1b2c3d4e5f60718"}]},
    )

    position: bodies.Name = Field(description="The `position` of a line of the stream.")
