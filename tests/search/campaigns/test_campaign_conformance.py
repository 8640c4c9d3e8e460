"""The model of a campaign does what the service does: walks that both take together."""

from collections.abc import Callable

import pytest

from forewarn.control.requests import rollouts
from tests.search.campaigns import worlds
from tests.search.campaigns.settings import Setting
from tests.search.campaigns.state import Label
from tests.search.campaigns.transactions import TICK
from tests.search.campaigns.twin import Twin
from tests.support.profiles import amounts

WALKS = amounts().walks
STEPS = 50
"""Fewer minutes than a host that is passed over waits until it reserves its scope: the
model has no reservations."""


@pytest.mark.amounts
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("setting", worlds.WORLDS, ids=lambda setting: setting.name)
def test_model_and_service_steer_a_campaign_alike(
    setting: Setting, record_property: Callable[[str, object], None]
) -> None:
    steps = crashes = refusals = 0
    for seed in range(WALKS):
        twin = Twin(setting, seed)
        twin.walk(STEPS)
        steps += len(twin.trace)
        crashes += twin.crashes
        refusals += twin.refusals
    record_property(
        "search",
        f"walks in {setting.name}: {WALKS}, {crashes} crashes and {refusals} refusals "
        f"among {steps:,} steps; model and service never differed",
    )
    assert crashes
    assert refusals


def test_a_service_that_differs_from_the_model_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An approved stage does not begin: the service takes no turn."""
    twin = Twin(worlds.STAGES, 0)
    way = [Label("approve", 0), Label("done", 0), TICK, TICK]
    for label in way:
        twin.take(label)
    monkeypatch.setattr(rollouts, "_go_on", lambda _work, _request: False)
    with pytest.raises(AssertionError, match="the service has"):
        twin.take(Label("approve stage", 2))
