"""The fleet of a scenario file: a few VMs, a file beside it, or tables of its own.

Tables `[[fleet.vm]]` are those of a fleet file under one more name. They are read
by the reader of fleet files, so what is wrong in them is told with the line in the
scenario.
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
"""Of a fleet file beside a scenario: more VMs than a simulation has."""

KEYS: Mapping[str, Option] = {
    "vms": Option(form=Forms.COUNT, least=1, most=fleets.VMS_MAX),
    "together": validators.SWITCH,
    "file": validators.TEXT,
    **dict.fromkeys(fleet_text.KINDS, Option(form=Forms.ANY)),
}
"""The keys of `[fleet]`."""


def usual_text(fleet: Fleet, *, vms: int | None = None) -> str:
    """Return the fleet file of a scenario; `vms` is what whoever runs it wants."""
    if fleet.text:
        return fleet.text
    number = vms or fleet.vms or fleets.VMS
    return fleets.fleet_text(number, together=fleet.together)


def read(
    tables: Tables, found: Mapping[str, Any], *, text: str, folder: Path | None
) -> Fleet:
    """Return the fleet of the sound keys of `[fleet]`, whose whole file is `text`."""
    own = {kind: found[kind] for kind in fleet_text.KINDS if kind in found}
    usual = "vms" if found.get("vms") or found.get("together") else ""
    ways = [way for way in (usual, "file" if "file" in found else "", *own) if way]
    if len(ways) > 1 and ways[0] not in own:
        tables.blame(
            f"fleet.{ways[1]}",
            "a fleet is `vms` and `together`, or a `file`, or tables of its own",
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
    """Return the text of a file; raises ValueError with a sentence."""
    if folder is None:
        raise ValueError("this scenario is in no folder that could have it")
    try:
        data = read_file(folder / named, most=FLEET_BYTES_MAX, pipes=False)
        return data.decode("utf-8-sig")
    except OSError as error:
        raise ValueError(f"{named} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise ValueError(f"{named} is not UTF-8") from None
