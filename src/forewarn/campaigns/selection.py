"""Find the hosts of a campaign in a fleet."""

from collections.abc import Iterator

from forewarn.campaigns.fleet_map import FleetMap
from forewarn.campaigns.model import Selection
from forewarn.problems import did_you_mean, quoted
from forewarn.protocol.errors import RefusedError

TOLD_MAX = 10
"""Maximum unknown names in one message."""


def select(fleet: FleetMap, selection: Selection) -> list[int]:
    """Return the numbers of the selected hosts, in the order of the fleet.

    Raises RefusedError for names that the fleet does not have, and if no host matches.
    """
    unknown = list(_unknown(fleet, selection))
    if unknown:
        rest = len(unknown) - TOLD_MAX
        more = [f"and {rest:,} more"] if rest > 0 else []
        raise RefusedError(
            "\n".join([*unknown[:TOLD_MAX], *more]),
            hint="Correct [campaign.select], or apply the fleet file that has them.",
        )
    numbers = fleet.numbers
    selected = (
        [numbers[name] for name in selection.host]
        if selection.host
        else list(range(len(fleet)))
    )
    for label, values in selection.criteria:
        column = fleet.column(label)
        wanted = {column.numbers[value] for value in values}
        selected = [host for host in selected if column.of[host] in wanted]
    excluded = {numbers[name] for name in selection.exclude}
    selected = sorted(host for host in selected if host not in excluded)
    if not selected:
        raise RefusedError(
            "no host matches [campaign.select]",
            hint="A host must match every key; see `forewarn fleet show`.",
        )
    return selected


def _unknown(fleet: FleetMap, selection: Selection) -> Iterator[str]:
    """Yield a message for each name that the fleet does not have."""
    for key, names in (("host", selection.host), ("except", selection.exclude)):
        for name in names:
            if name not in fleet.numbers:
                near = did_you_mean(name, fleet.names)
                yield f"select.{key}: the fleet has no host {quoted(name)}{near}"
    for label, values in selection.criteria:
        column = fleet.column(label)
        for value in values:
            if value not in column.numbers or not value:
                near = did_you_mean(value, column.names[1:])
                yield f"select.{label}: no host has {label} {quoted(value)}{near}"
