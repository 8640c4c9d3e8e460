"""Generate the table of `docs/reference/relay-settings.md` from the options."""

from deploy.option_tables import default_shown, table
from forewarn.relay.options import OPTIONS
from forewarn.relay.settings import default_of


def settings_table() -> str:
    """Return the Markdown of the table."""
    lines = table(OPTIONS, lambda name, option: default_shown(option, default_of(name)))
    return "\n".join(lines) + "\n"
