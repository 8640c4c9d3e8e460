"""The metrics of visits follow their records, and are zero without visits."""

import pytest

from forewarn.protocol.visits import Visit, VisitState
from forewarn.service.visit_metrics import OpenVisits
from tests.support.worlds import World
from tests.unit.control.test_visits import maintain, order, visits, world_of
from tests.unit.service.test_campaign_metrics import values


class Watched:
    """A world whose visit of host h1 is reported to the metrics, second by second."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.metrics = OpenVisits(world.clock)
        self._last: Visit | None = None

    def see(self) -> Visit:
        now = visits(self.world)["h1"]
        self.metrics.changed(self._last, now)
        self._last = now
        return now

    def until(self, state: VisitState) -> None:
        while self.see().state is not state:
            self.world.advance("1s")

    def read(self) -> dict[str, object]:
        """Return the metrics, which are those of a service that starts now."""
        samples = values(self.metrics.readings())
        fresh = OpenVisits(self.world.clock)
        self.world.read(fresh.load)
        gauges = ("visits", "visits_late", "visits_failed_age_seconds")
        expected = values(fresh.readings())
        assert {name: expected[name] for name in gauges} == {
            name: samples[name] for name in gauges
        }
        return samples


def number_in(found: dict[str, object], name: str, state: str) -> object:
    counts = found[name]
    assert isinstance(counts, dict)
    return counts.get(state, 0)


def test_metrics_are_zero_without_visits() -> None:
    samples = Watched(world_of()).read()
    counts = samples["visits"]
    assert isinstance(counts, dict)
    assert {"Waiting", "Answering", "Failed", "Unknown"} <= counts.keys()
    assert not any(counts.values())
    assert (samples["visits_late"], samples["visits_failed_age_seconds"]) == (0, 0)


def test_metrics_of_a_visit_that_is_late_fails_and_is_retried() -> None:
    watched = Watched(world_of("verify fail times=15"))
    maintain(watched.world, "h1", work="flash", verify="flashed")
    watched.until(VisitState.VERIFYING)
    assert number_in(watched.read(), "visits", "Verifying") == 1
    watched.world.advance("25m")
    watched.see()
    assert watched.read()["visits_late"] == 1
    watched.until(VisitState.FAILED)
    watched.world.advance("10m")
    samples = watched.read()
    assert (samples["visits_late"], number_in(samples, "visits", "Failed")) == (0, 1)
    age = samples["visits_failed_age_seconds"]
    assert isinstance(age, float)
    assert age == pytest.approx(600, abs=2)
    assert samples["visit_steps_failed_total"] == {("verify", "failed"): 1}
    order(watched.world, "visit-retry", "h1")
    watched.until(VisitState.DONE)
    samples = watched.read()
    assert samples["visits_ended_total"] == {"Done": 1}
    assert number_in(samples, "visits", "Verifying") == 0
    assert samples["visit_steps_total"] == {"work": 2, "verify": 2}
    assert watched.metrics.seconds["work"] == pytest.approx(120, abs=4)


@pytest.mark.parametrize(
    ("fault", "counted"),
    [
        ("needed fail", ("needed", "failed")),
        ("work unknown", ("work", "unknown")),
        ("exit fail", ("exit", "failed")),
    ],
)
def test_failed_steps_are_counted_by_step_and_result(
    fault: str, counted: tuple[str, str]
) -> None:
    watched = Watched(world_of(fault))
    maintain(watched.world, "h1", needed="check", work="flash", exit="leave")
    for _ in range(60):
        watched.see()
        watched.world.advance("1m")
    assert watched.metrics.failed == {counted: 1}
