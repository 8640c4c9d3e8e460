"""An inventory of 80 hosts with 1,200 VMs, applied to a service again and again."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from forewarn.fleet.file import FleetText
from forewarn.fleet.model import Vm
from forewarn.fleet.sources import removals_of
from forewarn.protocol.errors import RefusedError
from forewarn.service.assembly import Service
from forewarn.service.fleets import FleetWrites
from forewarn.service.observed import Changes
from tests.support.loops import in_loop
from tests.unit.service.test_fleets import OPERATOR, running, vms_of

HOSTS, VMS = 80, 1_200
LOST = 25
"""VMs that are missing in a half inventory: one more than 2 %."""


def inventory(vms: Sequence[int] = range(VMS), *, moved: int = 0) -> FleetText:
    """Return the file of an inventory in which the first VMs have `moved` on."""
    text = "".join(
        f'[[host]]\nname = "h{number}"\nrack = "r{number // 20}"\nvcpu = 256\n\n'
        for number in range(HOSTS)
    ) + "".join(
        f'[[vm]]\nname = "v{number}"\n'
        f'host = "h{(number + (number < moved)) % HOSTS}"\nvcpu = 4\n'
        f'address = "10.{number // 250}.0.{number % 250 + 1}"\n\n'
        for number in vms
    )
    return FleetText(name="inventory", text=text, removals_max=removals_of("2%"))


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Counter[str]]:
    """Return a way to get the rows that were written since the last call."""
    rows: set[tuple[str, str]] = set()
    committed = FleetWrites.committed

    def count(self: FleetWrites, changes: Changes) -> None:
        for change in changes:
            record = change.before or change.after
            assert record is not None
            rows.add((type(record).__name__, record.key))
        committed(self, changes)

    monkeypatch.setattr(FleetWrites, "committed", count)

    def take() -> Counter[str]:
        counts = Counter(kind for kind, _ in rows)
        rows.clear()
        return counts

    return take


async def merge(service: Service, text: FleetText) -> list[str]:
    return list((await service.gateway.merge_fleet(text, who=OPERATOR)).lines())


@pytest.mark.slow
@in_loop
async def test_a_run_writes_only_the_differences(
    tmp_path: Path, written: Callable[[], Counter[str]]
) -> None:
    async with running(tmp_path) as service:
        assert len(await merge(service, inventory())) == HOSTS + VMS
        assert len(await vms_of(service)) == VMS + 2
        written()
        # A run that changes nothing writes nothing.
        assert await merge(service, inventory()) == []
        assert not written()
        lines = await merge(service, inventory(moved=3))
        assert lines == [
            f"~ vm v{number}: host h{number} → h{number + 1}" for number in range(3)
        ]
        # Two entries for each VM and one for the run; two hosts have as many VMs as before.
        assert written() == {"Vm": 3, "Capacity": 2, "AuditEntry": 7}
        with pytest.raises(RefusedError, match="would remove 25 of 1,200 VMs"):
            await merge(service, inventory(range(LOST, VMS), moved=3))
        assert not written()
        # The second run without them removes them.
        for _ in range(2):
            await merge(service, inventory(range(LOST - 1, VMS)))
        stored: dict[str, Vm] = await vms_of(service)
        assert len(stored) == VMS + 2 - (LOST - 1)
        assert {"web_0", "web_1"} <= stored.keys()
