"""A plan counts the models of its hosts, and warns of one that no canary stage has."""

import json
from typing import Any

from forewarn.campaigns.text import CampaignText
from forewarn.control.requests import campaign_starts
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.reporting import campaign_plans
from forewarn.store.memory import MemoryStore
from tests.support.campaigns import ONE_STAGE, file_of
from tests.support.worlds import World

CANARIES = "[[campaign.stage]]\nhosts = 1\n[[campaign.stage]]\nhosts = 4\n"


def of(*models: str) -> World:
    """Return hosts of these models in their order, each with a VM."""
    lines = [
        f'[[host]]\nname = "h{number:02}"\nrack = "r{number:02}"\n'
        + (f'labels = {{ model = "{model}" }}\n' if model else "")
        + f'[[vm]]\nname = "v{number}"\nhost = "h{number:02}"\n'
        for number, model in enumerate(models)
    ]
    return World(store=MemoryStore, driver=SimulatedDriver(), fleet="\n".join(lines))


def plan(world: World, more: str) -> dict[str, Any]:
    text = CampaignText(name="c.toml", text=file_of(more, impact="freeze"))
    request = campaign_starts.plan_request(text, world.plane.policy, now=world.now)
    return json.loads(
        world.read(lambda reader: campaign_plans.planned(reader, request).text)
    )


def late(planned: dict[str, Any]) -> list[str]:
    return [
        warning for warning in planned["warnings"] if "comes before stage" in warning
    ]


def test_a_model_that_only_the_last_stage_has_is_named() -> None:
    planned = plan(of(*["old"] * 6, *["new"] * 6), CANARIES)
    assert planned["counts"]["model"] == [
        {"value": "new", "hosts": 6},
        {"value": "old", "hosts": 6},
    ]
    (warning,) = late(planned)
    assert warning == (
        "no host of model new (6 hosts) comes before stage 3, the last one, so a fault of that "
        "model shows late; a separate campaign gives it canaries"
    )


def test_models_of_the_canary_stages_are_not_named() -> None:
    assert late(plan(of(*["old"] * 3, *["new"] * 6), CANARIES)) == []
    assert late(plan(of(*["old"] * 6, *["new"] * 6), ONE_STAGE)) == []
    assert late(plan(of(*["old"] * 6, *[""] * 6), CANARIES)) == []


def test_few_of_many_late_models_are_named() -> None:
    planned = plan(of(*["old"] * 6, *(f"m{number}" for number in range(5))), CANARIES)
    (warning,) = late(planned)
    assert warning.startswith("no host of models m0 (1 host), m1 (1 host), m2 (1 host)")
    assert "m3" not in warning
