"""All commands, in the order in which they are listed."""

from forewarn.cli.commands.addresses import ADDRESSES, GROUP
from forewarn.cli.commands.lists import LISTS
from forewarn.cli.commands.orders import ORDERS
from forewarn.cli.commands.service import GROUPS as SERVICE_GROUPS
from forewarn.cli.commands.service import SERVICE
from forewarn.cli.commands.upkeep import GROUPS as UPKEEP_GROUPS
from forewarn.cli.commands.upkeep import UPKEEP

COMMANDS = (*SERVICE, *LISTS, *ORDERS, *ADDRESSES, *UPKEEP)
GROUPS = {**SERVICE_GROUPS, **GROUP, **UPKEEP_GROUPS}

__all__ = ["COMMANDS", "GROUPS"]
