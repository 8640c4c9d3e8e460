"""`check list` and `check run` as they are printed."""

import json
from collections.abc import Callable

import pytest

from tests.unit.admin.test_checks import ERRORS
from tests.unit.cli.conftest import Ended

Run = Callable[..., Ended]


@pytest.mark.usefixtures("service")
def test_checks_are_printed_as_a_table_or_json(forewarn: Run) -> None:
    head, row = forewarn("check", "list").out.splitlines()
    assert head.split() == [
        "CHECK",
        "OUTCOME",
        "ASKED",
        "REASON",
        "NEEDED",
        "KIND",
        "ASKS",
    ]
    assert row.split()[:3] == ["errors", "pass", "2030-01-01T00:00:00Z"]
    assert json.loads(forewarn("check", "list", "--json").out) == [ERRORS]


@pytest.mark.usefixtures("service")
def test_check_run_prints_the_outcome_and_fails_without_a_pass(forewarn: Run) -> None:
    ended = forewarn("check", "run", "errors")
    assert (ended.status, ended.out) == (0, "errors: pass: 1, above 0\n")
    ended = forewarn("check", "run", "broken")
    assert (ended.status, ended.out) == (1, "broken: unknown: no answer\n")
    ended = forewarn("check", "run", "a/../b")
    assert (ended.status, ended.out) == (4, "")
