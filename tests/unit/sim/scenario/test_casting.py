"""Roles: the same scenario on other fleets and with other names."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.fleet.file import read_fleet
from forewarn.protocol.errors import RefusedError
from forewarn.sim import fleets
from forewarn.sim.scenario import builtin, casting, rehearsal
from forewarn.sim.scenario.file import usual_text
from forewarn.sim.scenario.model import OTHERS, Order, Scenario

SCENARIOS = [scenario.name for scenario in builtin.scenarios()]

SOLO = '[[host]]\nname = "box"\n[[vm]]\nname = "solo"\nhost = "box"\n'


def rich(*, order: Sequence[int] = range(12)) -> str:
    """Return a fleet with a VM for every role."""
    lines = ['[[tenant]]\nname = "acme"', '[[tenant]]\nname = "guest"']
    for name, tenant in (("app", "acme"), ("else", "guest")):
        lines.append(
            f'[[scope]]\nname = "{name}"\ntenant = "{tenant}"\nkind = "scale-set"\n'
            'terminate_notice = "5m"\nos_image_notice = "15m"'
        )
    hosts = [f"node-{number}" for number in range(6)]
    lines += [f'[[host]]\nname = "{host}"' for host in hosts]
    vms = [("app", 0, number) for number in range(3)]
    vms += [("app", 1, 3), ("app", 2, 4), ("else", 0, 5)]
    vms += [("app", 1, 6), ("app", 2, 7)]
    names = [f"srv-{number}" for number in order]
    for (scope, host, number), name in zip(vms, names, strict=False):
        lines.append(
            f'[[vm]]\nname = "{name}"\nhost = "node-{host}"\nscope = "{scope}"\n'
            f"fault_domain = {host}\nspot = {str(number == 7).lower()}"
        )
    return "\n".join(lines)


def vms_of(scenario: Scenario) -> list[str]:
    return [client.vm for client in scenario.clients if client.vm != OTHERS]


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_is_playable_on_a_suitable_fleet(name: str) -> None:
    scenario = builtin.find(name)
    played = rehearsal.playable(scenario, rich())
    known = read_fleet(rich(), name="fleet").vms
    assert set(vms_of(played)) <= set(known)
    assert len(set(vms_of(played))) == len(vms_of(scenario))
    assert played.fleet.text == rich()


@pytest.mark.parametrize("name", SCENARIOS)
def test_each_scenario_plays_unchanged_on_its_own_fleet(name: str) -> None:
    scenario = builtin.find(name)
    played = rehearsal.playable(scenario, usual_text(scenario.fleet))
    assert (played.clients, played.steps) == (scenario.clients, scenario.steps)


@pytest.mark.parametrize("name", SCENARIOS)
def test_each_scenario_plays_with_other_names(name: str) -> None:
    scenario = builtin.find(name)
    played = casting.with_names(scenario, ["my-host"])
    assert vms_of(played)[0] == "my-host"
    text = played.fleet.text
    assert rehearsal.playable(played, text).clients == played.clients


@given(st.permutations(range(8)))
def test_the_order_of_a_fleet_does_not_matter(order: list[int]) -> None:
    text = rich(order=order)
    for name in ("spot-preemption", "one-host-three-vms", "other-tenant", "rollout"):
        played = next(casting.casts(builtin.find(name), text))
        fleet = read_fleet(text, name="fleet")
        cast = [fleet.vms[vm] for vm in vms_of(played)]
        hosts = [vm.host for vm in cast]
        for step in played.steps:
            if isinstance(step.act, Order) and step.act.verb == "maintain":
                assert set(step.act.targets) <= set(hosts)
        match name:
            case "spot-preemption":
                assert [vm.spot for vm in cast] == [True]
            case "one-host-three-vms":
                assert len(set(hosts)) == 1
            case "other-tenant":
                assert len(set(hosts)) == 1
                assert len({vm.tenant for vm in cast}) == 2
            case _:
                assert len(set(hosts)) == 3


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("live-migration", "there is no host with capacity for solo"),
        ("spot-preemption", "no VM can be spot_0, which must be a Spot VM"),
        (
            "terminate-one",
            "no VM can be web_0, which must be notified of its deletion",
        ),
        ("two-events", "no VM can be web_1, .* be on another host than web_0"),
        (
            "one-host-three-vms",
            "no VM can be web_1, which must be on the host of",
        ),
    ],
)
def test_scenario_that_a_fleet_cannot_play_reports_what_is_missing(
    name: str, why: str
) -> None:
    with pytest.raises(RefusedError) as refused:
        rehearsal.playable(builtin.find(name), SOLO)
    assert refused.value.message.startswith(f"{name} cannot be played on this fleet: ")
    assert re.search(why, refused.value.message)
    assert "--show" in refused.value.hint


def test_role_is_played_by_the_vm_that_the_user_names() -> None:
    scenario = builtin.find("user-reboot")
    assert vms_of(rehearsal.playable(scenario, rich(), names=["srv-3"])) == ["srv-3"]
    with pytest.raises(RefusedError, match="VM 'srv_3' is not in the fleet"):
        rehearsal.playable(scenario, rich(), names=["srv_3"])
    spot = builtin.find("spot-preemption")
    with pytest.raises(RefusedError, match="VM srv-3 cannot be spot_0"):
        rehearsal.playable(spot, rich(), names=["srv-3"])


def test_casting_finds_the_only_host_that_can_be_emptied() -> None:
    hosts = {"a": 2, "b": 1, "c": 1}
    vms = {"v0": "a", "v1": "a", "v2": "b"}
    text = "".join(
        f'[[host]]\nname = "{host}"\ncapacity = {room}\n'
        for host, room in hosts.items()
    ) + "".join(f'[[vm]]\nname = "{vm}"\nhost = "{on}"\n' for vm, on in vms.items())
    played = rehearsal.playable(builtin.find("live-migration"), text)
    assert vms_of(played) == ["v2"]


@given(st.lists(st.sampled_from(["a", "web_0", "web_1", "web_2", "z"]), unique=True))
def test_names_are_given_to_the_first_vms_and_no_vm_is_lost(names: list[str]) -> None:
    text = fleets.fleet_text(3)
    named, new = casting.named_text(text, names)
    vms = read_fleet(named, name="fleet").vms
    assert len(vms) == 3
    for place, name in enumerate(names[:3]):
        assert new[f"web_{place}"] == name
        assert vms[name].host == f"h{place}"


@pytest.mark.parametrize("name", ["\N{ROCKET}", "caf\u00e9", "\U0002070e"])
def test_name_can_have_any_printable_character(name: str) -> None:
    named, _ = casting.named_text(fleets.fleet_text(1), [name])
    assert [*read_fleet(named, name="fleet").vms] == [name]


def test_renaming_keeps_the_quotes_of_keys() -> None:
    text = SOLO + 'tags = { "cost center" = "\\U0001F680" }\n'
    named, _ = casting.named_text(text, ["bob"])
    assert read_fleet(named, name="fleet").vms["bob"].tags == (
        ("cost center", "\N{ROCKET}"),
    )


def test_large_fleet_is_tried_in_part_and_then_as_a_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rehearsal, "LARGE", 20)
    text = fleets.fleet_text(200)
    for name in ("live-migration", "rollout"):
        played = rehearsal.playable(builtin.find(name), text)
        assert played.fleet.text == text
    # No host has capacity.
    full = text.replace('[[host]]\nname = "spare"\n', "")
    full = re.sub(r'(name = "h\d+"\n)', r"\1capacity = 1\n", full)
    monkeypatch.setattr(rehearsal, "CASTS_MAX", 1)
    with pytest.raises(RefusedError, match="there is no host with capacity for web_0"):
        rehearsal.playable(builtin.find("live-migration"), full)


def test_casting_of_a_large_fleet_succeeds_or_fails_quickly() -> None:
    text = fleets.fleet_text(3_000)
    played = next(casting.casts(builtin.find("rollout"), text))
    assert vms_of(played) == ["web_0", "web_1", "web_2"]
    with pytest.raises(RefusedError, match="no VM can be web_1"):
        next(casting.casts(builtin.find("one-host-three-vms"), text))
