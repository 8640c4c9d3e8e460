"""`webhook list` and `webhook test` as they are printed."""

import json
from collections.abc import Callable

from tests.unit.admin.test_webhooks import OPS
from tests.unit.cli.conftest import Ended, Served

Run = Callable[..., Ended]


def test_receivers_are_printed_as_a_table_or_json(
    service: Served, forewarn: Run
) -> None:
    head, row = forewarn("webhook", "list").out.splitlines()
    assert head.split()[:4] == ["WEBHOOK", "TENANT", "STATE", "PENDING"]
    assert head.split()[4:6] == ["DROPPED", "LAST"]
    assert row.split() == ["ops", "-", "idle", "0", "0", "2030-01-01T00:00:00Z", "-"]
    assert json.loads(forewarn("webhook", "list", "--json").out) == [OPS]


def test_webhook_test_reports_the_delivery(service: Served, forewarn: Run) -> None:
    ended = forewarn("webhook", "test", "ops")
    assert (ended.status, ended.out) == (0, "ops accepted it: 204 in 0.01 s\n")
    ended = forewarn("webhook", "test", "dead")
    assert ended.status == 1
    assert ended.out == "dead did not accept it: no answer in 10 s\n"
    assert json.loads(forewarn("webhook", "test", "dead", "--json").out)["error"]
    ended = forewarn("webhook", "test", "nobody")
    assert (ended.status, ended.out) == (4, "")
