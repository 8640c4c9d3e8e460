"""The choice of the event loop, for all of forewarn except the agent."""

import asyncio

import uvloop


def new_loop() -> asyncio.AbstractEventLoop:
    """Return a new event loop of uvloop, which serves twice as many GETs as asyncio's."""
    return uvloop.new_event_loop()
