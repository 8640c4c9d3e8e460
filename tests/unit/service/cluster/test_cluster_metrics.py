"""Test the metrics of a replica: unknown is not 0."""

from dataclasses import replace
from typing import Any

from forewarn.cluster.lease import LeaseState
from forewarn.cluster.port import Condition, StandbyState
from forewarn.cluster.view import SILENT_SECONDS, Look, View, looked
from forewarn.service import metric_definitions
from forewarn.service.cluster import cluster_metrics
from tests.unit.cluster.test_view import Watcher, lease, row


def reported(view: View) -> dict[str, Any]:
    readings = cluster_metrics.readings(
        view, LeaseState(), now=0.0, takeovers=0, passed_on={}
    )
    return {reading.meter.name: reading.values for reading in readings}


BEHIND = metric_definitions.CLUSTER_BEHIND_SECONDS.name
ENTRIES = metric_definitions.CLUSTER_BEHIND_ENTRIES.name
FEED_ROWS = metric_definitions.CLUSTER_FEED_ROWS.name
STANDBY = metric_definitions.CLUSTER_STANDBY.name


def test_follower_reports_what_it_lacks_and_for_how_long() -> None:
    watcher = Watcher()
    watcher.look(10, 10)
    readings = reported(watcher.look(12, 10))
    assert (readings[ENTRIES], readings[BEHIND]) == (2, 0.0)
    readings = reported(watcher.look(12, 10))
    assert (readings[ENTRIES], readings[BEHIND]) == (2, 1.0)
    readings = reported(watcher.look(12, 12))
    assert (readings[ENTRIES], readings[BEHIND]) == (0, 0.0)


def test_replica_whose_own_row_is_silent_is_behind_since_its_last_sign() -> None:
    watcher = Watcher()
    watcher.look(10, 10)
    silent = row("b", 10, int(watcher.at))
    # The database answers, but the write of its own row has not come back since.
    for _ in range(round(SILENT_SECONDS) + 10):
        watcher.at += 1
        look = Look(at=watcher.at, lease=lease(10), rows=(silent,))
        watcher.watch = looked(watcher.watch, look)
    view = watcher.view()
    readings = reported(view)
    assert view.lease is not None
    assert readings[BEHIND] == round(SILENT_SECONDS) + 10
    assert ENTRIES not in readings


def test_replica_without_answers_of_the_database_is_behind_since_the_last_one() -> None:
    watcher = Watcher()
    watcher.look(10, 10)
    readings = reported(watcher.view(20))
    assert readings[BEHIND] == 20
    assert ENTRIES not in readings


def test_condition_of_a_database_that_is_away_is_unknown() -> None:
    watcher = Watcher()
    condition = Condition(standby=StandbyState.STREAMING, feed_rows=7)
    watcher.watch = replace(watcher.watch, condition=condition)
    readings = reported(watcher.look(10, 10))
    assert readings[FEED_ROWS] == 7
    assert readings[STANDBY]["streaming"] == 1
    readings = reported(watcher.view(20))
    assert FEED_ROWS not in readings
    # Another alert is about the database. This one needs a right of the user.
    assert not any(readings[STANDBY].values())
    hidden = Condition(standby=StandbyState.UNKNOWN)
    watcher.watch = replace(watcher.watch, condition=hidden)
    assert reported(watcher.look(10, 10))[STANDBY]["unknown"] == 1
