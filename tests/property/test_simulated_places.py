"""The hosts that the plan of a small fleet can clear are cleared, and no others.

The plan judges each host alone, as the fleet is now. A simulation empties it with the
rules of the service. A host that the plan refuses keeps a VM if it is maintained anyway.
"""

import contextlib
import json
from typing import Any, NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forewarn.campaigns.simulated import Assumptions
from forewarn.campaigns.text import CampaignText
from forewarn.control.requests import campaign_starts, verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.rules.policy import Policy
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.operations import Action
from forewarn.service.simulation.fleet_copy import copy_fleet
from forewarn.service.simulation.play import SimulationRequest, play
from forewarn.store import kinds
from forewarn.store.memory import MemoryStore
from forewarn.store.port import every
from tests.support.worlds import World

SCOPES = 3


class Placed(NamedTuple):
    """A VM of a small fleet."""

    host: int
    scope: int
    fault_domain: int


class Small(NamedTuple):
    """A small fleet: the capacity and rack of each host, and the VMs."""

    hosts: tuple[tuple[int, int], ...]
    vms: tuple[Placed, ...]

    @property
    def text(self) -> str:
        return (
            "".join(
                f'[[scope]]\nname = "s{scope}"\nkind = "availability-set"\n'
                for scope in range(SCOPES)
            )
            + "".join(
                f'[[host]]\nname = "h{number}"\ncapacity = {capacity}\nrack = "r{rack}"\n'
                for number, (capacity, rack) in enumerate(self.hosts)
            )
            + "".join(
                f'[[vm]]\nname = "vm{number}"\nhost = "h{vm.host}"\n'
                f'scope = "s{vm.scope}"\nfault_domain = {vm.fault_domain}\n'
                for number, vm in enumerate(self.vms)
            )
        )


@st.composite
def fleets(draw: st.DrawFn) -> Small:
    """Return a fleet that a fleet file may describe, and in which little fits."""
    hosts = tuple(
        draw(
            st.lists(
                st.tuples(st.integers(0, 3), st.integers(0, 1)), min_size=2, max_size=5
            )
        )
    )
    drawn = draw(
        st.lists(
            st.builds(
                Placed,
                host=st.integers(0, len(hosts) - 1),
                scope=st.integers(0, SCOPES - 1),
                fault_domain=st.integers(0, 2),
            ),
            max_size=8,
        )
    )
    vms: list[Placed] = []
    for vm in drawn:
        there = [vm_ for vm_ in vms if vm_.host == vm.host]
        is_apart = all(
            other.scope != vm.scope or other.fault_domain == vm.fault_domain
            for other in there
        )
        if len(there) < hosts[vm.host][0] and is_apart:
            vms.append(vm)
    return Small(hosts, tuple(vms))


def text_of(*hosts: str) -> CampaignText:
    select = f"select = {{ host = {json.dumps(hosts)} }}"
    return CampaignText(
        name="c.toml",
        text='[campaign]\nname = "bios"\nreason = "CVE"\nimpact = "live-migrate"\n'
        f'{select}\n[[campaign.stage]]\nhosts = "100%"\n'
        '[campaign.expect]\ntypical = "5m"\nslow = "5m"\n',
    )


def refused(world: World) -> set[str]:
    """Return the hosts with VMs that a plan of all of these cannot clear."""
    hosts = hosts_with_vms(world)
    if not hosts:
        return set()
    text = text_of(*sorted(hosts))
    planned = campaign_starts.plan_request(text, Policy(), now=world.now)
    try:
        plan = world.read(lambda reader: campaign_starts.plan_of(reader, planned))
    except RefusedError:
        return hosts
    return {refusal.host for refusal in plan.refusals}


def hosts_with_vms(world: World) -> set[str]:
    return world.read(lambda reader: {vm.host for vm in every(reader, kinds.ALL_VMS)})


def played(world: World, *hosts: str) -> Any:
    text = text_of(*hosts)
    request = SimulationRequest(
        text=text,
        assumed=Assumptions(approve=1),
        policy=Policy(),
        now=world.now,
        hosts_max=0,
    )
    copied = world.read(lambda reader: copy_fleet(reader, text))
    return play(copied, request)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(fleets())
def test_a_host_that_can_be_cleared_is_cleared_alone(fleet: Small) -> None:
    world = World(store=MemoryStore, driver=SimulatedDriver(), fleet=fleet.text)
    cannot = refused(world)
    for name in sorted(hosts_with_vms(world) - cannot):
        simulated = played(world, name)
        assert (simulated.record.done, simulated.is_cut) == (1, False), (name, fleet)
        left = simulated.store.read(
            lambda reader, name=name: reader.select(kinds.VMS_ON_HOST, name, limit=1)
        )
        assert not left, (name, fleet)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(fleets())
def test_a_host_that_cannot_be_cleared_keeps_a_vm(fleet: Small) -> None:
    world = World(store=MemoryStore, driver=SimulatedDriver(), fleet=fleet.text)
    for name in sorted(refused(world)):
        tried = World(store=MemoryStore, driver=SimulatedDriver(), fleet=fleet.text)
        with contextlib.suppress(RefusedError):
            tried.order(
                lambda work, name=name: verbs.maintain(
                    work, [name], Action.LIVE_MIGRATE, OrderOptions()
                )
            )
            tried.advance("3h")
        assert tried.read(
            lambda reader, name=name: reader.select(kinds.VMS_ON_HOST, name, limit=1)
        ), (name, fleet)
