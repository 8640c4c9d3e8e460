"""The operator API of worlds: one application for all, created on first use.

Creating the application takes longer than creating a world. So all worlds share one.
Each world has its own socket, and the gateway of that world answers its requests.
FastAPI is not imported before a test requests the URL.
"""

import functools
import weakref
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from forewarn import __version__
from forewarn.control.transactions.work import Who
from forewarn.metadata.server import Address
from forewarn.protocol.errors import RefusedError
from forewarn.sim import vms
from forewarn.sim.sim_server import HOST, SimServer
from forewarn.sim.vms import NewVm
from forewarn.testing.kit.core import Core

GRACE_SECONDS = 0.0
"""Maximum time for pending requests when a world ends: its test has ended."""

_CORE: ContextVar["weakref.ref[Core]"] = ContextVar("core")
"""The world of the current request. Only the test holds a strong reference to it."""


def _core() -> Core:
    core = _CORE.get()()
    assert core is not None, "a collected world has no listener"
    return core


class _Present:
    """The gateway of the world that received the current request."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_core().sim_server.gateway, name)


class _World:
    """The world that received the current request, for the routes of the simulator."""

    @property
    def stage(self) -> SimServer:
        """Return the world's simulated server."""
        return _core().sim_server

    def addresses(self) -> Mapping[str, Address]:
        """Return the address of each VM's endpoint."""
        return self.stage.server.addresses()

    async def add_vm(self, new: NewVm, *, who: Who) -> Address:
        """Add a VM to the fleet; return the address of its endpoint."""
        await self.stage.gateway.order(who, lambda work: vms.add(work, new))
        await _core().open_all()
        return self.addresses()[new.name]

    async def remove_vm(self, name: str, *, who: Who) -> None:
        """Remove a VM from the fleet; its address then answers 404."""
        await self.stage.gateway.order(who, lambda work: vms.remove(work, name))

    async def reset(self) -> None:
        """Raise RefusedError: a test begins another world instead."""
        raise RefusedError(
            "the world of a test cannot be reset", hint="Begin another world."
        )


@functools.cache
def _app() -> Any:
    """Return the application of all worlds."""
    from forewarn.admin.app import create_app  # noqa: PLC0415 - slow, rarely needed
    from forewarn.sim.routes import router  # noqa: PLC0415 - the same

    gateway: Any = _Present()
    return create_app(
        gateway,
        tokens=None,
        version=__version__,
        title="forewarn test kit",
        extra=[router(_World())],
    )


async def serve(core: Core) -> str:
    """Serve the operator API of a world until it ends; return the URL."""
    from forewarn.service.admin import AdminServer  # noqa: PLC0415 - the same

    shared, held = _app(), weakref.ref(core)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        _CORE.set(held)
        await shared(scope, receive, send)

    server = AdminServer(app, grace_seconds=GRACE_SECONDS)
    await server.start(f"{HOST}:0")
    core.ending.first.append(server.stop)
    return server.listener.url
