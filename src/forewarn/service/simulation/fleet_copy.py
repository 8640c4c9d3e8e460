"""A copy of the fleet of a store, in memory, for a simulation.

The copy has the hosts with their states and cordons, the VMs, scopes, windows, views,
what the driver told about hosts and VMs, and the blackouts of the service.
It has no operation, campaign, token or history, except the durations of past work: what
is announced or in work now counts as ended.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, replace

from forewarn.campaigns.durations import Sample
from forewarn.campaigns.file import read_campaign
from forewarn.campaigns.text import CampaignText
from forewarn.control.rules import past_work
from forewarn.fleet.model import (
    NO_USE,
    Host,
    Vm,
    VmState,
    capacity_of,
    use_of,
)
from forewarn.fleet.room_tallies import tallied
from forewarn.protocol.lifecycle import ViewState
from forewarn.protocol.views import View
from forewarn.reporting.campaign_simulations import LeftOut
from forewarn.store import kinds
from forewarn.store.memory import MemoryStore
from forewarn.store.port import Reader, Store, Transaction, every
from forewarn.store.questions import Record
from forewarn.store.records import BRAKE_KEY, FLEET_HOSTS, Brake, Tally

COPIED_TOGETHER = 1_000
"""Records in one transaction of the copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetCopy:
    """The records of a fleet."""

    records: tuple[Record, ...]
    past: tuple[Sample, ...]
    """Durations of past work of the campaign's impact."""
    left_out: LeftOut

    def store(self) -> Store:
        """Return a store in memory with these records."""
        store = MemoryStore()
        for first in range(0, len(self.records), COPIED_TOGETHER):
            some = self.records[first : first + COPIED_TOGETHER]

            def add(tx: Transaction, some: tuple[Record, ...] = some) -> None:
                for record in some:
                    tx.add(record)

            store.transact(add)
        return store


def copy_fleet(reader: Reader, text: CampaignText) -> FleetCopy:
    """Return the fleet of a store, and the durations that past work had, for a campaign.

    Raises CampaignFileError.
    """
    impact = read_campaign(text.text, name=text.name).impact
    vms = [
        _at_rest(vm)
        for vm in every(reader, kinds.ALL_VMS)
        if vm.state is not VmState.DELETED
    ]
    uses = defaultdict[str, tuple[int, int, int]](lambda: NO_USE)
    for vm in vms:
        places, vcpu, memory = uses[vm.host]
        more, more_vcpu, more_memory = use_of(vm)
        uses[vm.host] = places + more, vcpu + more_vcpu, memory + more_memory
    hosts: list[Host] = list(every(reader, kinds.ALL_HOSTS))
    rooms = [capacity_of(host, use=uses[host.name]) for host in hosts]
    sums = Counter({FLEET_HOSTS: len(hosts)})
    for room in rooms:
        sums.update(dict(tallied(room)))
    return FleetCopy(
        records=(
            *every(reader, kinds.ALL_TENANTS),
            *every(reader, kinds.ALL_SCOPES),
            *hosts,
            *rooms,
            *map(_unwatched, every(reader, kinds.ALL_VIEWS)),
            *vms,
            *every(reader, kinds.ALL_ABILITIES),
            *every(reader, kinds.ALL_BLACKOUTS),
            *(Tally(name=name, count=count) for name, count in sums.items() if count),
        ),
        past=tuple(past_work.samples(reader, impact)),
        left_out=LeftOut(
            operations=sum(1 for _ in every(reader, kinds.OPEN_OPERATIONS)),
            campaigns=tuple(
                sorted(
                    campaign.name for campaign in every(reader, kinds.CAMPAIGNS_OPEN)
                )
            ),
            is_braked=reader.get(Brake, BRAKE_KEY) is not None,
        ),
    )


def _at_rest(vm: Vm) -> Vm:
    """Return a VM that no operation has started on."""
    return replace(vm, moving_to="", started=(), left_views=(), applied="")


def _unwatched(view: View) -> View:
    """Return a view that is disabled: no VM requests documents in a simulation.

    Views decide nothing about planned work, and a document takes time to render.
    """
    return replace(view, state=ViewState.DISABLED, ready_at=0, events_from=0, due_at=0)
