"""The metric of problems: what `forewarn problems` lists, of the replica that leads."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from forewarn.admin.leader import Leader, Leading
from forewarn.cluster.view import View
from forewarn.control.requests import failures
from forewarn.control.transactions.work import Who
from forewarn.protocol.actors import operator
from forewarn.service import metric_definitions
from forewarn.service.problem_metrics import ProblemMetrics
from forewarn.store.port import Reader, StoreError
from tests.support.loops import in_loop
from tests.unit.admin.gateway import LocalGateway

T = TypeVar("T")


class Alone:
    """A service without receivers and without other replicas."""

    async def webhooks(self) -> Sequence[dict[str, Any]]:
        return ()

    async def test_webhook(self, name: str) -> dict[str, Any]:
        raise AssertionError(name)

    async def cluster(self) -> View | None:
        return None


class Unreadable(LocalGateway):
    """A gateway whose store does not answer."""

    async def read(self, ask: Callable[[Reader], T]) -> T:
        raise StoreError("the store does not answer")


async def counts(gateway: LocalGateway, leading: Leading | None = None) -> Any:
    """Return the readings' values; None: there are none."""
    problems = ProblemMetrics(lambda: gateway, Alone(), Alone(), leading or Leading())
    readings = await problems.readings()
    if not readings:
        return None
    [reading] = readings
    assert reading.meter is metric_definitions.PROBLEMS
    return cast("Mapping[str, int]", reading.values)


@in_loop
async def test_problems_are_counted_by_kind() -> None:
    gateway = LocalGateway()
    before = await counts(gateway)
    assert set(before.values()) == {0}
    who = Who(actor=operator("alice"), reason="no power")
    await gateway.order(who, lambda work: failures.fail_host(work, "h1"))
    assert {kind for kind, number in (await counts(gateway)).items() if number} == {
        "vm-down"
    }


@in_loop
async def test_replica_that_follows_has_no_count() -> None:
    leading = Leading()
    leading.elsewhere = Leader(name="other", url="")
    assert await counts(LocalGateway(), leading) is None


@in_loop
async def test_store_that_cannot_be_read_leaves_the_count_out() -> None:
    assert await counts(Unreadable()) is None
