"""The page of the scenarios says what is in their files, and shows only sound ones."""

import pytest

from forewarn.sim.scenario import file, model, steps
from forewarn.sim.scenario.file import read_scenario
from tests.house.test_docs import blocks
from tests.support import scenarios_page
from tests.support.pages import REFERENCE, TESTING

PAGE = TESTING / "scenarios.md"


def test_the_reference_is_up_to_date(request: pytest.FixtureRequest) -> None:
    page, wanted = REFERENCE / "scenarios.md", scenarios_page.page()
    if request.config.getoption("--rewrite"):
        page.write_text(wanted, encoding="utf-8")
    assert page.read_text(encoding="utf-8") == wanted, "run `pytest --rewrite` here"


def test_every_shown_scenario_is_valid() -> None:
    scenarios = list(blocks("scenario"))
    assert scenarios
    for block in scenarios:
        read_scenario(block.text, file=str(block))


@pytest.mark.parametrize(
    "word",
    [
        *steps.ACTS,
        *steps.COMMON,
        *(wanted.value for wanted in model.Wanted),
        *(phase.value for phase in model.EventPhase),
        *(demand.value for demand in model.Demand if demand is not model.Demand.ASKS),
        *(expected.value for expected in model.Expected),
    ],
)
def test_every_keyword_of_a_scenario_file_is_on_the_page(word: str) -> None:
    assert f"`{word}" in PAGE.read_text(encoding="utf-8").replace('`"', "`")


def test_every_settings_table_is_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for table in file.SETTING_TABLES:
        assert f"[{table}]" in text, table
