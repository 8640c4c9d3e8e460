"""All commands, in the order in which they are listed."""

from forewarn.cli.commands.addresses import ADDRESSES
from forewarn.cli.commands.agent import AGENT
from forewarn.cli.commands.campaigns import CAMPAIGNS
from forewarn.cli.commands.history import HISTORY
from forewarn.cli.commands.lists import LISTS
from forewarn.cli.commands.orders import ORDERS
from forewarn.cli.commands.service import SERVICE
from forewarn.cli.commands.simulator import SIMULATOR
from forewarn.cli.commands.testkit import TESTKIT
from forewarn.cli.commands.upkeep import (
    BLACKOUTS,
    BRAKE,
    CHECKS,
    CLUSTER,
    CONSOLE,
    DEFERRALS,
    TOKENS,
    UPKEEP,
    WEBHOOKS,
    WINDOWS,
)

_STEERING = next(
    place for place, order in enumerate(ORDERS) if order.name.startswith("campaign ")
)
"""Place of the first request that steers a campaign: what comes before it in the life of a
campaign, such as its plan, is listed before it."""

COMMANDS = (
    *SERVICE,
    *LISTS,
    *HISTORY,
    *ORDERS[:_STEERING],
    *CAMPAIGNS,
    *ORDERS[_STEERING:],
    *BRAKE,
    *BLACKOUTS,
    *WINDOWS,
    *DEFERRALS,
    *TOKENS,
    *CONSOLE,
    *ADDRESSES,
    *WEBHOOKS,
    *CHECKS,
    *CLUSTER,
    *UPKEEP,
    *AGENT,
    *SIMULATOR,
    *TESTKIT,
)
GROUPS = {
    "fleet": "check, apply, show and export the fleet",
    "config": "show and check the settings",
    "brake": "stop and resume planned work",
    "blackout": "set, show and remove times in which no planned work begins",
    "window": "set, show and clear the maintenance windows of scopes",
    "host": "cordon, open and drain hosts",
    "visit": "retry and skip failed visits of hosts",
    "rollout": "list and show rollouts",
    "check": "list checks, and ask one",
    "cluster": "show the replicas of the service",
    "campaign": "plan, start and steer the maintenance of many hosts",
    "token": "create, list and revoke tokens of the operator API",
    "addresses": "let the guests of this host reach 169.254.169.254",
    "webhook": "list and test receivers of webhooks",
    "relay": "run the relay of a host, and list the relays of all hosts",
    "store": "check, back up and restore the store",
    "agent": "watch for maintenance in a VM: prepare, approve, recover",
    "sim": "control a running simulator: its clock, events, faults, VMs",
}
"""Words that begin several commands, each with its summary. `agent` and `relay`
are also commands."""
