"""Conclusions from the answers of all hosts."""

import pytest

from forewarn.drivers.libvirt.answers import (
    DomainState,
    answer_in,
    observation_of,
    reading_of,
    running_in,
)
from forewarn.drivers.marks import Mark, MarkState
from forewarn.drivers.port import Observation

MARK = Mark(operation_id="op-1", generation=1, work="reboot", state=MarkState.DONE)
HERE, DOWN, OFF, MOVED = (
    DomainState(presence=presence) for presence in ("here", "down", "off", "elsewhere")
)
MARKED = DomainState(presence="here", mark=MARK)
SPOILED = DomainState(presence="here", is_readable=False)


@pytest.mark.parametrize(
    ("domains", "missing", "running", "host"),
    [
        ({"h1": HERE}, (), True, "h1"),
        # The old definition is left on the source of a migration.
        ({"h1": MOVED, "h2": HERE}, ("h3",), True, "h2"),
        ({"h1": DOWN}, (), False, None),
        ({"h1": DOWN, "h2": DOWN}, (), False, None),
        ({"h1": DOWN}, ("h2",), None, None),
        ({"h1": OFF}, (), None, None),
        ({"h1": MOVED, "h2": DOWN}, (), None, None),
        ({"h1": HERE, "h2": HERE}, (), None, None),
        ({}, (), None, None),
    ],
)
def test_vm_is_where_one_host_has_it(
    domains: dict[str, DomainState],
    missing: tuple[str, ...],
    running: bool | None,
    host: str | None,
) -> None:
    answers = {
        "h9": {},
        **{name: {"web_0": domain} for name, domain in domains.items()},
    }
    observation = observation_of("web_0", answers, missing=missing)
    assert observation == Observation(running=running, host=host)


@pytest.mark.parametrize(
    ("domains", "missing", "mark", "running"),
    [
        ({"h1": MARKED}, (), MARK, True),
        ({"h1": HERE}, (), None, True),
        ({"h1": MARKED}, ("h2",), MARK, True),
        ({"h1": MOVED, "h2": MARKED}, (), MARK, True),
        ({"h1": DomainState(presence="down", mark=MARK)}, (), MARK, False),
        ({"h1": DomainState(presence="off", mark=MARK), "h2": MOVED}, (), MARK, None),
    ],
)
def test_mark_is_read_where_the_vm_is(
    domains: dict[str, DomainState],
    missing: tuple[str, ...],
    mark: Mark | None,
    running: bool | None,
) -> None:
    answers = {host: {"web_0": domain} for host, domain in domains.items()}
    reading = reading_of("web_0", answers, missing=missing)
    assert reading is not None
    assert (reading.mark, reading.running) == (mark, running)


@pytest.mark.parametrize(
    ("domains", "missing"),
    [
        ({}, ()),
        ({"h1": SPOILED}, ()),
        ({"h1": MARKED, "h2": MARKED}, ()),
        ({"h1": DOWN}, ("h2",)),
        ({"h1": DOWN, "h2": OFF}, ()),
    ],
)
def test_mark_that_cannot_be_told_has_no_reading(
    domains: dict[str, DomainState], missing: tuple[str, ...]
) -> None:
    answers = {host: {"web_0": domain} for host, domain in domains.items()}
    assert reading_of("web_0", answers, missing=missing) is None


def test_invalid_parts_of_an_answer_are_left_out() -> None:
    parts = [
        5,
        {"vm": 5, "presence": "here"},
        {"vm": "a", "presence": "there"},
        {"vm": "b", "presence": "here", "mark": "op-1.1.reboot", "state": "done"},
        {"vm": "c", "presence": "here", "mark": 5},
        {"vm": "d", "presence": "here", "mark": "op-1.1.reboot", "state": "?"},
        {"vm": "e", "presence": "down", "mark": None},
        {"vm": "f", "presence": "unknown"},
    ]
    assert answer_in(parts) == {
        "b": MARKED,
        "c": SPOILED,
        "d": SPOILED,
        "e": DOWN,
        "f": DomainState(presence="unknown", is_readable=False),
    }


def test_vms_that_run_on_some_host_are_found() -> None:
    answers = {"h1": {"a": HERE, "b": DOWN}}
    assert running_in(answers) == {"a"}
