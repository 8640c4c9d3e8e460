"""Requests with `--dry-run`: what they would do is printed, and nothing is changed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forewarn.fleet.model import Host
from tests.unit.cli.conftest import Ended, Served
from tests.unit.cli.test_campaigns import TEXT

Run = Callable[..., Ended]

NOTHING = "nothing was changed: this was a dry run"


def lines_of(ended: Ended) -> list[str]:
    assert (ended.status, ended.err) == (0, "")
    first, *lines = ended.out.splitlines()
    assert first == NOTHING
    return lines


def parsed(run: Run, *words: str) -> Any:
    ended = run(*words, "--json")
    assert ended.status == 0, ended.err
    return json.loads(ended.out)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "kernel.toml"
    path.write_text(TEXT)
    return path


def digest(run: Run, file: Path) -> str:
    return parsed(run, "campaign", "plan", str(file))["digest"]


def test_maintenance_says_how_much_it_would_announce(
    service: Served, forewarn: Run
) -> None:
    ended = forewarn("maintain", "h1", "--impact", "freeze", "--dry-run")
    assert lines_of(ended) == ["1 host (2 VMs of 2 tenants) would be announced now"]
    assert parsed(forewarn, "operations") == []


def test_refused_targets_are_named_and_fail_the_dry_run(
    service: Served, forewarn: Run
) -> None:
    ended = forewarn("restore", "h1", "--dry-run")
    assert ended.status == 4
    assert "h1 is not down" in ended.err


def test_cordon_concerns_no_operation(service: Served, forewarn: Run) -> None:
    ended = forewarn("host", "cordon", "h1", "--dry-run")
    assert lines_of(ended) == ["no operation is concerned"]
    host = service.do(lambda: service.gateway.store.read(lambda tx: tx.get(Host, "h1")))
    assert host.cordons == ()


def test_start_of_a_campaign_can_be_tried(
    service: Served, forewarn: Run, file: Path
) -> None:
    plan = digest(forewarn, file)
    start = ("campaign", "start", str(file), "--plan", plan)
    ended = forewarn(*start, "--dry-run")
    assert lines_of(ended) == ["3 hosts would be planned, and announced later"]
    assert forewarn("campaign", "list").out == "no open campaigns\n"
    assert forewarn(*start).status == 0
    ended = forewarn(*start, "--dry-run")
    assert ended.status == 4
    assert "campaign kernel has 3 of the hosts and has not ended" in ended.err


def test_halt_says_what_is_withdrawn_and_what_waits(
    service: Served, forewarn: Run, file: Path
) -> None:
    forewarn("campaign", "start", str(file), "--plan", digest(forewarn, file))
    ended = forewarn("campaign", "halt", "kernel", "--dry-run")
    assert lines_of(ended)[-1] == "3 hosts not announced yet"
    assert parsed(forewarn, "campaign", "show", "kernel")["state"] == "Running"


def test_brake_says_what_it_would_hold(service: Served, forewarn: Run) -> None:
    forewarn("maintain", "h1", "--impact", "freeze")
    held = "1 host (2 VMs of 2 tenants) would be"
    ended = forewarn("brake", "on", "--dry-run", "--reason", "power")
    assert lines_of(ended) == [f"{held} held"]
    ended = forewarn("brake", "on", "--withdraw", "--dry-run", "--reason", "power")
    assert lines_of(ended) == [f"{held} cancelled without impact"]
    assert parsed(forewarn, "brake", "on", "--dry-run")["dry_run"] is True
    assert forewarn("brake", "show").out == "the brake is off\n"


def test_decision_after_that_of_another_is_refused(
    service: Served, forewarn: Run, file: Path
) -> None:
    forewarn("campaign", "start", str(file), "--plan", digest(forewarn, file))
    revision = parsed(forewarn, "campaign", "show", "kernel")["revision"]
    arguments = ("kernel", "--revision", revision, "--reason", "a look")
    assert forewarn("campaign", "pause", *arguments).status == 0
    ended = forewarn("campaign", "halt", *arguments)
    assert ended.status == 4
    assert "campaign kernel has changed since you looked: campaign paused" in ended.err
