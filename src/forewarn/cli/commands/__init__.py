"""All commands, in the order in which they are listed."""

from forewarn.cli.commands.addresses import ADDRESSES, GROUP
from forewarn.cli.commands.agent import AGENT
from forewarn.cli.commands.agent import GROUP as AGENT_GROUP
from forewarn.cli.commands.history import HISTORY
from forewarn.cli.commands.lists import GROUPS as LIST_GROUPS
from forewarn.cli.commands.lists import LISTS
from forewarn.cli.commands.orders import ORDERS
from forewarn.cli.commands.service import GROUPS as SERVICE_GROUPS
from forewarn.cli.commands.service import SERVICE
from forewarn.cli.commands.simulator import GROUP as SIMULATOR_GROUP
from forewarn.cli.commands.simulator import SIMULATOR
from forewarn.cli.commands.testkit import TESTKIT
from forewarn.cli.commands.tokens import GROUP as TOKEN_GROUP
from forewarn.cli.commands.tokens import TOKENS
from forewarn.cli.commands.upkeep import GROUPS as UPKEEP_GROUPS
from forewarn.cli.commands.upkeep import UPKEEP
from forewarn.cli.commands.webhooks import GROUPS as WEBHOOK_GROUPS
from forewarn.cli.commands.webhooks import WEBHOOKS

COMMANDS = (
    *SERVICE,
    *LISTS,
    *HISTORY,
    *ORDERS,
    *TOKENS,
    *ADDRESSES,
    *WEBHOOKS,
    *UPKEEP,
    *AGENT,
    *SIMULATOR,
    *TESTKIT,
)
GROUPS = {
    **SERVICE_GROUPS,
    **LIST_GROUPS,
    **TOKEN_GROUP,
    **GROUP,
    **WEBHOOK_GROUPS,
    **UPKEEP_GROUPS,
    **AGENT_GROUP,
    **SIMULATOR_GROUP,
}

__all__ = ["COMMANDS", "GROUPS"]
