"""The fleet of a scenario file: the default fleet, a fleet file, or tables.

Tables such as `[[fleet.vm]]` are those of a fleet file with a prefix. The reader of fleet
files reads them and reports problems with the line in the scenario.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from forewarn.fleet.errors import FleetFileError
from forewarn.fleet.file import WantedFleet, read_fleet
from forewarn.settings.files import read_file
from forewarn.settings.forms import Option
from forewarn.settings.tables import Tables
from forewarn.sim import fleet_text, fleets
from forewarn.sim.scenario import validators
from forewarn.sim.scenario.model import Fleet
from forewarn.sim.scenario.validators import Forms

FLEET_BYTES_MAX = 16 * 1024 * 1024
"""Maximum bytes of a fleet file: more VMs than a simulation has."""

KEYS: Mapping[str, Option] = {
    "vms": Option(form=Forms.COUNT, least=1, most=fleets.VMS_MAX),
    "together": validators.SWITCH,
    "file": validators.TEXT,
    **dict.fromkeys(fleet_text.KINDS, Option(form=Forms.ANY)),
}
"""The keys of `[fleet]`."""


def usual_text(fleet: Fleet, *, vms: int | None = None) -> str:
    """Return the fleet file of a scenario; `vms` overrides the number of VMs."""
    if fleet.text:
        return fleet.text
    number = vms or fleet.vms or fleets.VMS
    return fleets.fleet_text(number, together=fleet.together)


def read(
    tables: Tables, found: Mapping[str, Any], *, text: str, folder: Path | None
) -> Fleet:
    """Return the fleet from the valid keys of `[fleet]`; `text` is the whole file."""
    own = {kind: found[kind] for kind in fleet_text.KINDS if kind in found}
    usual = "vms" if found.get("vms") or found.get("together") else ""
    ways = [way for way in (usual, "file" if "file" in found else "", *own) if way]
    if len(ways) > 1 and ways[0] not in own:
        tables.blame(
            f"fleet.{ways[1]}",
            "a fleet has `vms` and `together`, or a `file`, or tables",
        )
        return Fleet()
    try:
        if own:
            read_fleet(text, name=tables.file, within="fleet", tables=own)
            return Fleet(text=fleet_text.write_tables(own))
        if "file" in found:
            beside = _beside(found["file"], folder)
            read_fleet(beside, name=found["file"])
            return Fleet(text=beside)
    except FleetFileError as error:
        tables.problems += error.problems
    except ValueError as error:
        tables.blame("fleet.file", str(error))
    return Fleet(vms=found.get("vms"), together=found.get("together", False))


def wanted(fleet: Fleet) -> WantedFleet:
    """Return the fleet as values."""
    return read_fleet(usual_text(fleet), name="fleet")


def _beside(named: str, folder: Path | None) -> str:
    """Return the text of a file; raises ValueError with a message."""
    if folder is None:
        raise ValueError("this scenario has no directory with a fleet file")
    try:
        data = read_file(folder / named, most=FLEET_BYTES_MAX, pipes=False)
        return data.decode("utf-8-sig")
    except OSError as error:
        raise ValueError(f"{named} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise ValueError(f"{named} is not UTF-8") from None
