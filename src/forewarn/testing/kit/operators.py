"""The operator API of worlds: one application for all, made when one first asks.

To make the application takes longer than a world does. So there is one, each world
has a socket of its own before it, and a request is answered by the gateway of the world
that it came in by. FastAPI is not imported before somebody asks for the URL.
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
"""For requests under way when a world ends: its test is over."""

_CORE: ContextVar["weakref.ref[Core]"] = ContextVar("core")
"""The world that the request under way is about. It is held by its test alone."""


def _core() -> Core:
    found = _CORE.get()()
    assert found is not None, "a world that nobody holds is served no more"
    return found


class _Present:
    """The gateway of the world that a request came in by."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_core().stage.gateway, name)


class _World:
    """The world that a request came in by, for the simulator's own routes."""

    @property
    def stage(self) -> SimServer:
        """Return its stage."""
        return _core().stage

    def addresses(self) -> Mapping[str, Address]:
        """Return where each VM is served."""
        return self.stage.server.addresses()

    async def add_vm(self, new: NewVm, *, who: Who) -> Address:
        """Add a VM to the fleet; return where it is served."""
        await self.stage.gateway.order(who, lambda work: vms.add(work, new))
        await _core().open_all()
        return self.addresses()[new.name]

    async def remove_vm(self, name: str, *, who: Who) -> None:
        """Take a VM out of the fleet; its address answers 404."""
        await self.stage.gateway.order(who, lambda work: vms.remove(work, name))

    async def reset(self) -> None:
        """Refuse: a test that wants to begin again begins another world."""
        raise RefusedError(
            "the world of a test does not begin again", hint="begin another one"
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
    """Serve the operator API of a world, until it ends; return the URL."""
    from forewarn.service.admin import AdminServer  # noqa: PLC0415 - the same

    shared, held = _app(), weakref.ref(core)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        _CORE.set(held)
        await shared(scope, receive, send)

    server = AdminServer(app, grace_seconds=GRACE_SECONDS)
    await server.start(f"{HOST}:0")
    core.ending.first.append(server.stop)
    return server.listener.url
