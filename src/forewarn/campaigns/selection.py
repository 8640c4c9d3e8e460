"""Find the hosts of a campaign in a fleet."""

from collections.abc import Iterator

from forewarn.campaigns.fleet_map import FleetMap
from forewarn.campaigns.model import PLACES, Selection
from forewarn.campaigns.text import FileRefusedError
from forewarn.problems import did_you_mean, quoted

SELECT = "campaign.select"


def select(fleet: FleetMap, selection: Selection) -> list[int]:
    """Return the numbers of the selected hosts, in the order of the fleet.

    Raises FileRefusedError for names that the fleet does not have, and if no host matches.
    """
    unknown = list(_unknown(fleet, selection))
    if unknown:
        raise FileRefusedError(
            unknown,
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
        raise FileRefusedError(
            [(SELECT, "no host matches")],
            hint="A host must match every key; see `forewarn fleet show`.",
        )
    return selected


def _unknown(fleet: FleetMap, selection: Selection) -> Iterator[tuple[str, str]]:
    """Yield the key and a message for each name that the fleet does not have."""
    for key, names in (("host", selection.host), ("except", selection.exclude)):
        for name in names:
            if name not in fleet.numbers:
                near = did_you_mean(name, fleet.names)
                yield f"{SELECT}.{key}", f"the fleet has no host {quoted(name)}{near}"
    for label, values in selection.criteria:
        column = fleet.column(label)
        key = f"{SELECT}.{label}" if label in PLACES else f"{SELECT}.labels.{label}"
        for value in values:
            if value not in column.numbers or not value:
                near = did_you_mean(value, column.names[1:])
                yield key, f"no host has {label} {quoted(value)}{near}"
