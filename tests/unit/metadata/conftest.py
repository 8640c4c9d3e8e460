"""Event loops for the tests of the metadata server."""

import asyncio

import pytest
import uvloop

from tests.unit.metadata.support import Play, Story


@pytest.fixture(params=["asyncio", "uvloop"])
def play(request: pytest.FixtureRequest) -> Play:
    """Return what runs a story, on the standard loop and on the service's."""
    factory = uvloop.new_event_loop if request.param == "uvloop" else None

    def run(story: Story) -> None:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(story())

    return run
