"""The clients of a scenario file: what programs in VMs must do, as `[[client]]`.

The keys are described in `docs/how-to/test/scenarios.md`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from forewarn.protocol.events import EventStatus
from forewarn.settings.forms import Option
from forewarn.settings.tables import Tables
from forewarn.sim.scenario import validators
from forewarn.sim.scenario.model import OTHERS, Client, Demand
from forewarn.sim.scenario.steps import STATUSES, Known
from forewarn.sim.scenario.validators import Forms

CLIENTS_MAX = 1_000
"""Clients of a scenario: as many as names in a step."""

KEYS: Mapping[str, Option] = {
    "vm": Option(form=Forms.NAME, is_needed=True),
    "optional": validators.SWITCH,
    Demand.APPROVES.value: validators.YES,
    Demand.SEES.value: Option(form=Forms.WORD, words=STATUSES),
    Demand.IGNORES_OTHERS.value: validators.YES,
    Demand.COMES_BACK.value: Option(form=Forms.YES_OR_DURATION),
}


def read(
    tables: Tables, entries: Sequence[Mapping[str, Any]], known: Known
) -> tuple[Client, ...]:
    """Return the clients of the sound keys of each table; problems are kept."""
    found: list[Client] = []
    for number, entry in enumerate(entries, start=1):
        where = f"client.{number}"
        vm = entry.get("vm", "")
        if vm and vm != OTHERS:
            known.check(tables, f"{where}.vm", (vm,), "vm")
        if vm and vm in {other.vm for other in found}:
            tables.blame(f"{where}.vm", f"there is a client of {vm} already")
        sees = entry.get(Demand.SEES.value)
        found.append(
            Client(
                vm=vm,
                line=tables.line(where),
                is_optional=entry.get("optional", False) or vm == OTHERS,
                approves=Demand.APPROVES.value in entry,
                sees=None if sees is None else EventStatus(sees),
                ignores_others=Demand.IGNORES_OTHERS.value in entry,
                comes_back=entry.get(Demand.COMES_BACK.value, 0),
            )
        )
    return tuple(found)
