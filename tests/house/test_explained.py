"""Every object that a reader shows is explained by its name or ID."""

from forewarn.cli.commands.lists import LISTS
from forewarn.reporting.explained_names import KINDS
from forewarn.store import kinds

IDS = {"operation", "request", "visit", "event", "host", "vm", "campaign"}
"""The kinds that `explanations` finds by an ID, or before other names."""

EXPLAINED = {
    "Operation": "operation",
    "Request": "request",
    "Visit": "visit",
    "Event": "event",
    "Host": "host",
    "Vm": "vm",
    "CampaignRecord": "campaign",
    "Scope": "scope",
    "Tenant": "tenant",
    "WideBlackout": "blackout",
    "Token": "token",
    "HostAbilities": "host",
    "Capacity": "host",
    "RelayLink": "host",
}
"""Kinds of records, and the kind of object that their explanation is part of."""

NAMELESS = {
    "Leader": "there is one",
    "View": "served by VM and scope",
    "AuditEntry": "a line of the history",
    "OutboxMessage": "counted by its webhook",
    "Span": "a part of the history of a VM",
    "OrderKey": "the key of a repeated request",
    "AppliedFile": "there is one",
    "Brake": "there is one, with its own command",
    "Loss": "counted by the brake",
    "Tally": "a counter",
    "Choice": "the decision of a tenant, named by its VM or scope",
    "UnplannedPage": "a part of the list of a rollout",
}
"""Kinds of records without a name that a list shows."""


def test_each_kind_of_record_is_explained_or_has_no_name() -> None:
    assert sorted(kind.__name__ for kind in kinds.KINDS) == sorted(EXPLAINED | NAMELESS)
    assert set(EXPLAINED.values()) <= IDS | KINDS.keys()


def test_command_offers_every_kind() -> None:
    (command,) = (list_ for list_ in LISTS if list_.path == ("explain",))
    (option,) = (option for option in command.options if option.name == "--kind")
    assert set(option.choices) == {"host", "vm", "campaign", *KINDS}
    (name,) = (option for option in command.options if option.name == "id")
    assert all(kind in name.help for kind in KINDS if kind != "place")
