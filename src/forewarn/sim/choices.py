"""Choices on the page of a simulation, besides its cards: a profile, a scenario, a poll.

A simulation from the command line has these routes. Nothing is decided here: a scenario is
played like one of the command line.
"""

import asyncio
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.responses import Response

from forewarn.admin.answers import answer, documented
from forewarn.admin.bodies import Name, Order
from forewarn.admin.context import RouteGateway
from forewarn.admin.once import Responses, once_route
from forewarn.metadata.server import Address
from forewarn.protocol.errors import ForewarnError, NotFoundError, RefusedError
from forewarn.sim.news import Reporter
from forewarn.sim.playlist import Player, Playlist, PlayOptions
from forewarn.sim.profiles import Profile
from forewarn.sim.scenario import builtin
from forewarn.sim.scenario.run import summary
from forewarn.sim.simulator import Simulator

POLL_SECONDS = 10.0
"""Timeout of a poll. A fault can delay an answer for longer; the journal has it then."""

_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not bound
"""The address of this machine for a listener at all of its addresses."""

_POLL = (
    "GET /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\nHost: {host}\r\n"
    "Metadata: true\r\nUser-Agent: forewarn-console\r\nConnection: close\r\n\r\n"
)


class ProfileChoice(Order):
    """The profile of a new world."""

    profile: Profile


class ScenarioChoice(Order):
    """A built-in scenario to play."""

    scenario: Name


class PollOrder(Order):
    """The VM whose program is replaced for one request."""

    vm: Name


class ChoicesShape(BaseModel):
    """The profile, the scenarios, and the one that is played."""

    profile: str
    profiles: list[str]
    scenarios: list[dict[str, str]] = Field(description="`scenario`, `description`.")
    playing: str = Field(description="The scenarios that are played; empty: none.")
    results: list[str] = Field(
        description="The results of the last scenario that was begun here, as sentences."
    )


class PollShape(BaseModel):
    """The result of a poll."""

    vm: str
    status: int | None = Field(description="null: no answer within 10 s.")


class Choices:
    """The choices of a page: they begin new worlds of a simulator."""

    def __init__(
        self, simulator: Simulator, reporter: Reporter, options: PlayOptions
    ) -> None:
        """Play scenarios as the command line does; `reporter` follows the simulator."""
        self._simulator = simulator
        self._reporter = reporter
        self._options = options
        self._results: list[str] = []

    def report(self) -> dict[str, Any]:
        """Return the choices as JSON."""
        return {
            "profile": self._simulator.terms.profile.value,
            "profiles": [profile.value for profile in Profile],
            "scenarios": [
                {"scenario": scenario.name, "description": scenario.description}
                for scenario in builtin.scenarios()
            ],
            "playing": self._simulator.playing,
            "results": self._results,
        }

    async def set_profile(self, profile: Profile) -> None:
        """Begin the world again with a profile; raises RefusedError while one is played."""
        self._need_idle()
        await self._simulator.begin_with(
            replace(self._simulator.terms, profile=profile)
        )

    async def play(self, name: str) -> None:
        """Begin a scenario in a new world.

        Raises NotFoundError, RefusedError while one is played, and StartError if a VM of
        it gets no address.
        """
        self._need_idle()
        scenario = builtin.find(name)
        simulator = self._simulator
        options = replace(self._options, profile=simulator.terms.profile)
        # From here on, no other order begins a world.
        simulator.playing = scenario.name
        try:
            scenarios = await asyncio.to_thread(options.cast, [scenario])
            await simulator.begin_with(options.terms(scenarios))
        except BaseException:
            simulator.playing = ""
            raise
        player = Player(
            simulator,
            self._reporter,
            options=options,
            playlist=Playlist(rounds=(scenarios,)),
        )
        self._results = []
        task = asyncio.create_task(self._played(player))
        simulator.background.add(task)
        task.add_done_callback(simulator.background.discard)

    async def _played(self, player: Player) -> None:
        try:
            await player.play()
        except ForewarnError as error:
            self._results = [error.message]
        else:
            self._results = [
                sentence
                for result in player.results
                for sentence in (
                    summary(result),
                    *(failure.sentence for failure in result.failures),
                )
            ]

    async def poll(self, vm: str) -> int | None:
        """Ask for the document of a VM as its program does; return the status.

        Raises NotFoundError. None: there was no answer in time, such as with a fault.
        """
        address = self._simulator.addresses().get(vm)
        if address is None:
            raise NotFoundError(
                f"VM {vm!r} has no address",
                hint="Run `forewarn sim vm list` to list the VMs; names are case-sensitive.",
            )
        try:
            async with asyncio.timeout(POLL_SECONDS):
                return await _status_of_poll(address)
        except (OSError, TimeoutError):
            return None

    def _need_idle(self) -> None:
        if self._simulator.playing:
            raise RefusedError(
                f"the scenario {self._simulator.playing} is running",
                hint="Wait for its end, or stop the simulation and start it again.",
            )


async def _status_of_poll(address: Address) -> int | None:
    host, port = address
    reader, writer = await asyncio.open_connection(_LOOPBACK.get(host, host), port)
    try:
        writer.write(_POLL.format(host=f"[{host}]" if ":" in host else host).encode())
        parts = (await reader.readline()).split()
        await reader.read()
    finally:
        writer.close()
    return HTTPStatus(int(parts[1])).value if len(parts) > 1 else None


def choices_router(
    simulator: Simulator, reporter: Reporter, options: PlayOptions
) -> APIRouter:
    """Return the routes for the choices of a page."""
    sim = APIRouter(
        prefix="/sim", tags=["simulator"], route_class=once_route(Responses())
    )
    choices = Choices(simulator, reporter, options)

    @sim.get("/choices", responses=documented(ChoicesShape))
    async def listed() -> Response:
        """Return the profile, the scenarios, and the one that is played."""
        return answer(choices.report())

    @sim.post("/profile", responses=documented(ChoicesShape, 400, 409))
    async def set_profile(body: ProfileChoice, gateway: RouteGateway) -> Response:
        """Restart with another profile."""
        _ = gateway
        await choices.set_profile(body.profile)
        return answer(choices.report())

    @sim.post("/scenario", responses=documented(ChoicesShape, 400, 404, 409))
    async def play(body: ScenarioChoice, gateway: RouteGateway) -> Response:
        """Restart with the fleet of a scenario, and play it.

        It waits for a first request of a VM, as on the command line.
        """
        _ = gateway
        await choices.play(body.scenario)
        return answer(choices.report())

    @sim.post("/polls", responses=documented(PollShape, 400, 404))
    async def poll(body: PollOrder, gateway: RouteGateway) -> Response:
        """Ask for the document of a VM once, at its address."""
        _ = gateway
        status = await choices.poll(body.vm)
        return answer({"vm": body.vm, "status": status})

    return sim
