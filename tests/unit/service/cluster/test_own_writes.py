"""A VM that approves at a replica that follows reads its approval there."""

import asyncio

import pytest

from forewarn.cluster import calls
from forewarn.service import limits
from tests.support.loops import in_loop, until
from tests.support.processes import PATIENCE_SECONDS
from tests.unit.service.cluster.test_replicas import eventually, pair

pytestmark = pytest.mark.system


@in_loop
async def test_follower_answers_an_approval_when_it_serves_the_result() -> None:
    """The leader has answered already, and the follower cannot read the database."""
    with pytest.MonkeyPatch.context() as patch:
        # The leader waits for no replica.
        patch.setattr(calls, "QUIET_SECONDS", 0.0)
        patch.setattr(limits, "SERVED_SECONDS", PATIENCE_SECONDS)
        async with pair() as (first, second):
            await eventually(second.is_served)
            order = {"hosts": ["h1"], "impact": "freeze"}
            assert (await first.ask("/v1/maintain", order))[0] == 201
            [event] = await eventually(second.events)
            replica = second.service._replica
            assert replica is not None
            second.backend.reads.clear()
            approval = asyncio.create_task(second.approve(event["EventId"]))
            try:
                await until(lambda: replica._asking is not None or approval.done())
                assert not approval.done()
            finally:
                second.backend.reads.set()
            assert await approval == (200, None)
            [read] = await second.events()
            assert read["EventStatus"] == "Started"
