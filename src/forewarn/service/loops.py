"""The event loop that everything here runs on: the one place that chooses it."""

import asyncio

import uvloop


def new_loop() -> asyncio.AbstractEventLoop:
    """Return a new event loop: uvloop's, which answers twice as many GETs."""
    return uvloop.new_event_loop()
