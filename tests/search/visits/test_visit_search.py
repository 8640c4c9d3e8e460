"""Every state of a campaign with visits of three or four hosts, in the real service."""

import pytest

from tests.search.reached import NO_LIMIT
from tests.search.test_search import Record, rows
from tests.search.visits import apart, settings
from tests.search.visits.bugs import PLANTED, Planted
from tests.search.visits.settings import Setting
from tests.support.profiles import amounts, some

LIMIT = 400
"""States in which each planted bug is found."""


@pytest.mark.amounts
@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("setting", settings.WORLDS, ids=lambda setting: setting.name)
def test_every_state_of_visits_keeps_every_rule(
    setting: Setting, record_property: Record
) -> None:
    limit = amounts().visit_states or NO_LIMIT
    report = apart.search(setting, limit=limit)
    record_property("search", str(report))
    assert report.found is None, report
    if report.complete:
        assert [setting.name, f"{report.states:,}", f"{report.steps:,}"] in rows()
    else:
        assert limit <= report.states


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "planted", some(PLANTED, usual=PLANTED[::2]), ids=lambda bug: bug.what
)
def test_planted_bug_of_visits_is_found(
    planted: Planted, record_property: Record
) -> None:
    report = apart.search(planted.setting, limit=LIMIT, planted=planted.what)
    record_property("search", f"planted: {planted.what}\n{report}")
    assert report.found is not None, "nothing was found"
    assert report.found.name == planted.caught_by, report
    assert [planted.what, report.found.name] in [row[:2] for row in rows()]
