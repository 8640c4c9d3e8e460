"""Texts for people have whole seconds, whenever something happened."""

import json
import re
from collections.abc import Callable

from tests.unit.cli.conftest import Ended, Served

Run = Callable[..., Ended]

FRACTION = re.compile(r"\d\.\d+Z")

READERS = (
    ("operations",),
    ("events",),
    ("events", "--all"),
    ("problems",),
    ("waits",),
    ("capacity",),
    ("history",),
    ("history", "--summary"),
    ("fleet", "show"),
    ("rollout", "list"),
    ("rollout", "show", "ROLLOUT"),
    ("campaign", "list"),
    ("campaign", "show", "ROLLOUT"),
    ("explain", "ROLLOUT"),
    ("explain", "h1"),
    ("explain", "h2"),
    ("explain", "web_0"),
    ("explain", "web"),
    ("explain", "shop"),
    ("explain", "ci"),
    ("explain", "freeze"),
    ("brake", "show"),
    ("blackout", "show"),
    ("token", "list"),
    ("upcoming", "--tenant", "shop"),
)


def test_no_text_has_a_fraction_of_a_second(service: Served, forewarn: Run) -> None:
    gateway = service.gateway
    gateway.clock.advance_to(gateway.now() + 345_678)
    answers = [
        forewarn("maintain", "h1", "h2", "--impact", "freeze"),
        forewarn("host", "cordon", "h1", "--reason", "bad DIMM"),
        forewarn("token", "create", "--tenant", "shop", "--name", "ci"),
        forewarn("blackout", "set", "freeze", "22:00 1h", "--reason", "audit"),
        forewarn("brake", "on", "--reason", "smoke"),
        forewarn("fail", "web_1"),
    ]
    assert [answer.status for answer in answers] == [0] * len(answers), answers
    (rollout,) = json.loads(forewarn("rollout", "list", "--json").out)
    assert FRACTION.search(rollout["created"]), "the world has fractions"
    for arguments in READERS:
        line = [
            rollout["rollout"] if argument == "ROLLOUT" else argument
            for argument in arguments
        ]
        ended = forewarn(*line)
        assert ended.out, (arguments, ended.err)
        assert not FRACTION.search(ended.out), (arguments, ended.out)


def test_campaign_of_a_maintain_has_one_name_and_no_hint_about_a_file(
    service: Served,
    forewarn: Run,
) -> None:
    forewarn("maintain", "h1", "h2", "--impact", "freeze")
    (rollout,) = json.loads(forewarn("rollout", "list", "--json").out)
    name = rollout["rollout"]
    text = forewarn("campaign", "show", name).out
    first, second, *_ = text.splitlines()
    assert first == f"{name}: Running, freeze of 2 hosts"
    assert second.startswith("started by operator at ")
    assert second.endswith("Z")
    assert "no step work" not in text
