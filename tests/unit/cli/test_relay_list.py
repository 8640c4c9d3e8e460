"""`relay list`: the relays of all hosts, as a table or JSON."""

import json
from collections.abc import Callable

import pytest

from forewarn.cli.relay_list import row
from tests.unit.cli.conftest import Ended

Run = Callable[..., Ended]


@pytest.mark.usefixtures("service")
def test_relays_are_printed_as_a_table_or_json(forewarn: Run) -> None:
    assert forewarn("relay", "list").out == "no relays\n"
    for host in ("h2", "h1"):
        assert forewarn("token", "create", "--relay", host).status == 0
    head, first, second = forewarn("relay", "list").out.splitlines()
    assert head.split() == ["HOST", "STATE", "SINCE", "LAST", "SEEN", "BEHIND"]
    assert first.split() == ["h1", "away", "-", "-", "-"]
    assert second.split()[0] == "h2"
    document = json.loads(forewarn("relay", "list", "--json").out)
    assert [(relay["host"], relay["connected"]) for relay in document] == [
        ("h1", False),
        ("h2", False),
    ]


@pytest.mark.usefixtures("service")
def test_relays_are_selected_by_their_hosts(forewarn: Run) -> None:
    for host in ("h2", "h1"):
        assert forewarn("token", "create", "--relay", host).status == 0
    for words, hosts in (
        (["--host", "h2"], ["h2"]),
        (["--scope", "web"], ["h1", "h2"]),
        (["--scope", "web", "--host", "h1"], ["h1"]),
    ):
        document = json.loads(forewarn("relay", "list", *words, "--json").out)
        assert [relay["host"] for relay in document] == hosts
    ended = forewarn("relay", "list", "--rack", "r9")
    assert ended.status == 4
    assert "r9" in ended.err


def test_a_row_has_the_connection_and_the_lag() -> None:
    relay = {
        "host": "h1",
        "connected": True,
        "since": "2030-01-01T00:00:00Z",
        "last_seen": "2030-01-01T00:01:00Z",
        "behind_seconds": 2.345,
    }
    assert row(relay) == (
        "h1",
        "connected",
        "2030-01-01T00:00:00Z",
        "2030-01-01T00:01:00Z",
        "2.3 s",
    )
