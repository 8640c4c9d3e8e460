"""All commands, in the order in which they are listed."""

from forewarn.cli.commands.lists import LISTS
from forewarn.cli.commands.orders import ORDERS
from forewarn.cli.commands.service import GROUPS, SERVICE

COMMANDS = (*SERVICE, *LISTS, *ORDERS)

__all__ = ["COMMANDS", "GROUPS"]
