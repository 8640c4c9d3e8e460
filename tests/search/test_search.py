"""Every state of the small worlds, and what holds in all of them.

`pytest tests/search` prints what was searched; `--search-states=2000000` searches
a bigger world as far as that.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.search import worlds
from tests.search.bugs import PLANTED, Planted
from tests.search.explore import Report, Search
from tests.search.model import Model
from tests.search.settings import Setting
from tests.support.profiles import amounts, some

Record = Callable[[str, object], None]

LEAST_STATES = 200_000
"""Minimum of all worlds together: fewer would not be a search worth the name."""
PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "verification.md"
"""It says how many states each world has, and after how many a bug is found. A
search that reaches fewer for no reason has lost a step."""


def rows() -> list[list[str]]:
    """Return the rows of the page's tables."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    return [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]


def searched(setting: Setting, record: Record, *, limit: int = 0) -> Report:
    search = Search(Model(setting), limit=limit) if limit else Search(Model(setting))
    report = search.run()
    record("search", str(report))
    return report


@pytest.mark.amounts
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("setting", worlds.SEARCHED, ids=lambda setting: setting.name)
def test_every_state_of_a_small_world_keeps_every_invariant(
    setting: Setting, record_property: Record
) -> None:
    limit = amounts().search_states
    report = searched(setting, record_property, limit=limit)
    assert report.found is None, report
    assert report.undecided == 0 or not report.complete
    if limit and not report.complete:
        assert report.states >= limit
        return
    assert report.complete
    assert [setting.name, f"{report.states:,}", f"{report.steps:,}"] in rows()


def test_worlds_have_a_minimum_number_of_states() -> None:
    names = {setting.name for setting in worlds.SEARCHED}
    counts = [
        (int(row[1].replace(",", "")), int(row[2].replace(",", "")))
        for row in rows()
        if row[0] in names
    ]
    states, steps = map(sum, zip(*counts, strict=True))
    assert len(counts) == len(names)
    assert states >= LEAST_STATES
    assert ["**together**", f"**{states:,}**", f"**{steps:,}**"] in rows()


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_big_world_keeps_every_invariant(
    request: pytest.FixtureRequest, record_property: Record
) -> None:
    limit = request.config.getoption("--search-states", default=0)
    if not limit:
        pytest.skip("--search-states=2000000 takes minutes")
    report = searched(worlds.BIG, record_property, limit=limit)
    assert report.found is None, report
    assert report.states >= limit or report.complete


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("planted", PLANTED, ids=lambda bug: bug.model.__name__)
def test_planted_bug_is_found(planted: Planted, record_property: Record) -> None:
    report = Search(planted.model(planted.setting)).run()
    mistake = (planted.model.__doc__ or "").strip()
    record_property("search", f"planted: {mistake}\n{report}")
    assert report.found is not None, "nothing was found"
    assert report.found.name in planted.caught_by, report
    length = len(report.found.trace)
    row = [mistake.rstrip("."), report.found.name, f"{report.states:,}", str(length)]
    assert row in rows()


@pytest.mark.parametrize(
    "planted",
    some(PLANTED, usual=PLANTED[::4]),
    ids=lambda bug: bug.model.__name__,
)
def test_model_without_the_planted_bug_has_no_violation(planted: Planted) -> None:
    report = Search(Model(planted.setting), limit=3_000).run()
    assert report.found is None, report
