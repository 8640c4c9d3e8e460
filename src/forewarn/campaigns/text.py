"""A campaign file that is not read yet, its error, and the size of its plan.

Modules that only pass a file on import this one, and not the planner: to load that takes
a tenth of the start of a service.
"""

from dataclasses import dataclass

from forewarn.settings.tables import FileError

PLAN_HOSTS_MAX = 100_000
"""Maximum hosts with their times in one plan: a campaign of the largest fleet."""


class CampaignFileError(FileError):
    """The campaign file is invalid, and nothing was changed."""

    advice = "Fix the campaign file; nothing was changed."


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignText:
    """An unread campaign file."""

    name: str
    """Name of the file, for messages."""
    text: str
    key: str = ""
    """Name of the request, by which its caller can ask how far it has come; empty: it
    has none."""
