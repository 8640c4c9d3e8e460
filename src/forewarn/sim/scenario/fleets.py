"""The fleet of a scenario file: a few VMs, a file beside it, or tables of its own.

Tables `[[fleet.vm]]` are those of a fleet file under one more name. They are read
by the reader of fleet files, from the same lines, so what is wrong in them is told
with the line in the scenario.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from forewarn.fleet.errors import FleetFileError
from forewarn.fleet.file import WantedFleet, read_fleet
from forewarn.inputs import read_file
from forewarn.problems import Problem
from forewarn.sim import fleets
from forewarn.sim.scenario import validators
from forewarn.sim.scenario.model import Fleet
from forewarn.sim.scenario.validators import Keys

TABLES = ("tenant", "scope", "host", "vm")

FLEET_BYTES_MAX = 16 * 1024 * 1024
"""Of a fleet file beside a scenario: more VMs than a simulation has."""

_HEADER = re.compile(r"([ \t]*\[\[?[ \t]*)fleet[ \t]*\.[ \t]*(.*)")
_ANY_HEADER = re.compile(r"[ \t]*\[")


def usual_text(fleet: Fleet, *, vms: int | None = None) -> str:
    """Return the fleet file of a scenario; `vms` is what whoever runs it wants."""
    if fleet.text:
        return fleet.text
    number = vms or fleet.vms or fleets.VMS
    return fleets.fleet_text(number, together=fleet.together)


def read(
    table: Mapping[str, object],
    keys: Keys,
    *,
    text: str,
    file: str,
    folder: Path | None,
    problems: list[Problem],
) -> Fleet:
    """Return the fleet of the table `[fleet]`, whose whole file is `text`."""
    vms = keys.take("vms", validators.count(1, fleets.VMS_MAX), None)
    together = keys.take("together", validators.switch, default=False)
    named = keys.take("file", validators.text, "")
    own = [name for name in TABLES if name in table]
    for name in TABLES:
        keys.take(name, lambda _value: None, None)
    keys.close()
    ways = [*(("vms",) if vms or together else ()), *(("file",) if named else ())]
    ways += own[:1]
    if len(ways) > 1:
        keys.blame(
            ways[1],
            "a fleet is `vms` and `together`, or a `file`, or tables of its own",
        )
        return Fleet()
    if named:
        found = _beside(named, folder, keys)
        return _checked(found, name=named, problems=problems) if found else Fleet()
    if own:
        inner = extracted(text, table)
        if inner is None:
            keys.blame(own[0], f"is written as [[fleet.{own[0]}]], once for each")
            return Fleet()
        return _checked(inner, name=file, problems=problems)
    return Fleet(vms=vms, together=together)


def wanted(fleet: Fleet) -> WantedFleet:
    """Return the fleet as values."""
    return read_fleet(usual_text(fleet), name="fleet")


def extracted(text: str, table: Mapping[str, object]) -> str | None:
    """Return the tables below `fleet` as a fleet file with the same lines.

    None where they are not written as tables of their own.
    """
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        header = _HEADER.match(line)
        if header:
            lines.append(header[1] + header[2])
            inside = True
            continue
        inside = inside and not _ANY_HEADER.match(line)
        lines.append(line if inside else "")
    found = "\n".join(lines) + "\n"
    try:
        is_whole = tomllib.loads(found) == table
    except tomllib.TOMLDecodeError:
        return None
    return found if is_whole else None


def _beside(named: str, folder: Path | None, keys: Keys) -> str:
    if folder is None:
        keys.blame("file", "this scenario is in no folder that could have it")
        return ""
    try:
        data = read_file(folder / named, most=FLEET_BYTES_MAX, pipes=False)
        return data.decode("utf-8-sig")
    except OSError as error:
        keys.blame("file", f"{named} cannot be read: {error.strerror}")
    except ValueError:
        keys.blame("file", f"{named} is not UTF-8")
    return ""


def _checked(text: str, *, name: str, problems: list[Problem]) -> Fleet:
    try:
        read_fleet(text, name=name)
    except FleetFileError as error:
        problems += error.problems
        return Fleet()
    return Fleet(text=text)
