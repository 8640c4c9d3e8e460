"""The clients of a scenario file: what programs in VMs must do, as `[[client]]`.

The keys are described in `docs/how-to/test/scenarios.md`.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from forewarn.instants import SECOND, Micros
from forewarn.protocol.events import EventStatus
from forewarn.sim.scenario import validators
from forewarn.sim.scenario.model import OTHERS, Client, Demand
from forewarn.sim.scenario.steps import STATUSES, Known, check_names
from forewarn.sim.scenario.validators import Keys

COMES_BACK: Micros = 15 * SECOND
"""How soon a client asks again after its event is gone, unless the file says so: a
client that polls once a second has had many chances."""

CLIENTS_MAX = 1_000
"""Clients of a scenario: as many as names in a step."""

Blame = Callable[[int, str, str], None]
"""Told of a problem: the number of the table, its key, the sentence."""


def read(
    tables: Sequence[Mapping[str, object]],
    *,
    known: Known,
    line_of: Callable[[int], int],
    blame: Blame,
) -> tuple[Client, ...]:
    """Return the clients of the tables; problems are told to `blame`."""
    found: list[Client] = []
    for index, table in enumerate(tables):
        keys = Keys(table, partial(blame, index))
        client = _client(keys, known, line=line_of(index))
        if client.vm and client.vm in {other.vm for other in found}:
            keys.blame("vm", f"there is a client of {client.vm} already")
        found.append(client)
    return tuple(found)


def _client(keys: Keys, known: Known, *, line: int) -> Client:
    vm = keys.need("vm", validators.name, "")
    if vm and vm != OTHERS:
        check_names(keys, "vm", (vm,), known.vms, "vm")
    is_optional = keys.take("optional", validators.switch, default=False)
    client = Client(
        vm=vm,
        line=line,
        is_optional=is_optional or vm == OTHERS,
        approves=keys.take(Demand.APPROVES.value, validators.yes, default=False),
        sees=keys.take(Demand.SEES.value, _status, None),
        ignores_others=keys.take(
            Demand.IGNORES_OTHERS.value, validators.yes, default=False
        ),
        comes_back=keys.take(Demand.COMES_BACK.value, _yes_or_duration, 0),
    )
    keys.close()
    return client


def _status(value: object) -> EventStatus:
    return validators.one_of(STATUSES)(value)


def _yes_or_duration(value: object) -> Micros:
    """Return a duration, or the usual one for `true`."""
    if value is True:
        return COMES_BACK
    try:
        found = validators.duration(value)
    except ValueError as error:
        raise ValueError('must be true, or a duration such as "30s"') from error
    if not found:
        raise ValueError("must be more than nothing")
    return found
