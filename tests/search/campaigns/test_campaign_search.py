"""Every state of a campaign of four hosts, and the rules K1 to K10 in all of them."""

import pytest

from tests.search.campaigns import worlds
from tests.search.campaigns.bugs import PLANTED, Planted
from tests.search.campaigns.explore import Search
from tests.search.campaigns.model import Model
from tests.search.campaigns.settings import Setting
from tests.search.test_search import Record, rows
from tests.support.profiles import amounts

LEAST_STATES = 100_000
"""Minimum of all worlds together: fewer would not be a search worth the name."""


@pytest.mark.amounts
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("setting", worlds.WORLDS, ids=lambda setting: setting.name)
def test_every_state_of_a_campaign_keeps_every_rule(
    setting: Setting, record_property: Record
) -> None:
    limit = amounts().campaign_states
    search = Search(Model(setting), limit=limit) if limit else Search(Model(setting))
    report = search.run()
    record_property("search", str(report))
    assert report.found is None, report
    if report.complete:
        assert report.undecided == 0
        assert [setting.name, f"{report.states:,}", f"{report.steps:,}"] in rows()
    else:
        assert 0 < limit <= report.states


def test_worlds_with_campaigns_have_a_minimum_number_of_states() -> None:
    names = {setting.name for setting in worlds.WORLDS}
    counts = [int(row[1].replace(",", "")) for row in rows() if row[0] in names]
    assert len(counts) == len(names)
    assert sum(counts) >= LEAST_STATES


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("planted", PLANTED, ids=lambda bug: bug.model.__name__)
def test_planted_bug_of_a_campaign_is_found(
    planted: Planted, record_property: Record
) -> None:
    report = Search(planted.model(planted.setting)).run()
    mistake = (planted.model.__doc__ or "").strip()
    record_property("search", f"planted: {mistake}\n{report}")
    assert report.found is not None, "nothing was found"
    assert report.found.name == planted.caught_by, report
    length = len(report.found.trace)
    row = [mistake.rstrip("."), report.found.name, f"{report.states:,}", str(length)]
    assert row in rows()
