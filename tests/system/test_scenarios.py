"""Every scenario that comes with forewarn, on sockets, with careful clients.

They run at the same time on one loop, three hundred times as fast as they are meant.
"""

import asyncio
import json
import os
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from forewarn.metadata.server import Address
from forewarn.sim.scenario import builtin
from forewarn.sim.scenario.file import read_scenario
from forewarn.sim.scenario.model import Scenario
from forewarn.sim.scenario.run import Result, Runner
from forewarn.sim.scenario.setup import running_stage, setup_for, virtual_stage
from forewarn.sim.scenario.time import RunningTime, VirtualTime
from forewarn.sim.sim_server import SimServer
from forewarn.store import kinds
from forewarn.store.port import every
from tests.support.loops import in_loop
from tests.support.steady_clock import SteadyClock

pytestmark = [pytest.mark.system, pytest.mark.slow]

SPEED = 300
"""A quarter of an hour is three seconds."""

POLLS_EVERY_SECONDS = 0.5
"""Not more often than the real service allows, which is reported as a deviation."""

PATH = "/metadata/scheduledevents?api-version=2020-07-01"
WATCH = Path(__file__).parents[2] / "examples" / "clients" / "watch.py"


class Client:
    """A careful client of one VM: it remembers, prepares, then approves."""

    def __init__(
        self, name: str, at: Address, *, every: float = POLLS_EVERY_SECONDS
    ) -> None:
        self.name = name
        self._every = every
        self.seen: dict[str, list[str]] = {}
        self._at = at

    async def live(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            try:
                await self.poll()
            except ValueError as error:
                if error.args == (404,):
                    return  # The VM was deleted.

    async def poll(self) -> None:
        """Ask once; approve what is new and names this VM."""
        document = json.loads(await self._ask("GET"))
        new: list[str] = []
        for event in document["Events"]:
            if self.name not in event["Resources"]:
                continue
            statuses = self.seen.setdefault(event["EventId"], [])
            if event["EventStatus"] not in statuses:
                statuses.append(event["EventStatus"])
                new += [event["EventId"]] if event["EventStatus"] == "Scheduled" else []
        if new:
            requests = [{"EventId": event_id} for event_id in new]
            await self._ask("POST", {"StartRequests": requests})

    async def _ask(self, method: str, body: Any = None) -> bytes:
        reader, writer = await asyncio.open_connection(*self._at)
        sent = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{method} {PATH} HTTP/1.1\r\nHost: metadata\r\nMetadata: true\r\n"
            f"Content-Length: {len(sent)}\r\nConnection: close\r\n\r\n"
        )
        try:
            writer.write(head.encode() + sent)
            answer = await reader.read()
        finally:
            writer.close()
            await writer.wait_closed()
        status = int(answer.split()[1])
        if status != 200:
            raise ValueError(status)
        return answer.partition(b"\r\n\r\n")[2]


async def _stage(
    scenario: Scenario, *, speed: float
) -> tuple[SimServer, dict[str, Address]]:
    setup = setup_for([scenario], speed=speed)
    stage = running_stage(setup, clock=SteadyClock())
    vms = stage.engine.read(lambda reader: list(every(reader, kinds.ALL_VMS)))
    where = {vm.name: await stage.open(vm.name) for vm in vms}
    stage.begin()
    return stage, where


def _names(stage: SimServer) -> dict[str, str]:
    vms = stage.engine.read(lambda reader: list(every(reader, kinds.ALL_VMS)))
    return {vm.name: vm.wire_name for vm in vms}


async def _play(scenario: Scenario) -> tuple[Result, list[Client], SimServer]:
    stage, where = await _stage(scenario, speed=SPEED)
    names = _names(stage)
    clients = [Client(names[vm], at) for vm, at in where.items()]
    # Everybody has asked before anything happens.
    await asyncio.gather(*(client.poll() for client in clients))
    living = [asyncio.create_task(client.live()) for client in clients]
    result = await Runner(stage, RunningTime(stage)).run(scenario)
    await asyncio.sleep(2 * POLLS_EVERY_SECONDS)
    for task in living:
        task.cancel()
    await asyncio.gather(*living, return_exceptions=True)
    await stage.end()
    return result, clients, stage


@pytest.mark.clause("9.2")
@in_loop
async def test_careful_clients_pass_every_scenario_over_sockets() -> None:
    scenarios = builtin.scenarios()
    played = await asyncio.gather(*(_play(scenario) for scenario in scenarios))

    for result, clients, stage in played:
        name = result.scenario.name
        assert result.passed, [name, *(failure.sentence for failure in result.failures)]
        assert not stage.journal.deviations(), name
        events = [line for client in clients for line in client.seen.values()]
        assert events, f"no client saw anything of {name}"
        for line in events:
            assert line in (
                ["Scheduled"],  # Started for less than a poll, or cancelled.
                ["Scheduled", "Started"],
                ["Started"],
            ), (name, line)


EXPECTING = """
[settings]
recovery = "1m"

[[step]]
expect = { polled_by = "web_0", within = "20s" }

[[step]]
maintain = "h0"
impact = "live-migrate"

[[step]]
expect = { approved_by = "web_0", within = "20s" }

[[step]]
expect = { seen_by = "web_0", as = "Started", within = "20s" }

[[step]]
expect = { no_deviation = true }
"""


@in_loop
async def test_sample_client_meets_the_scenario_expectations() -> None:
    scenario = read_scenario(EXPECTING, file="expecting.toml")
    stage, where = await _stage(scenario, speed=30)
    host, port = where["web_0"]
    async with AsyncExitStack() as ending:
        client = await asyncio.create_subprocess_exec(
            sys.executable,
            str(WATCH),
            "true",
            env={**os.environ, "FOREWARN_ENDPOINT": f"http://{host}:{port}"},
            stdout=asyncio.subprocess.DEVNULL,
        )
        ending.push_async_callback(client.wait)
        ending.callback(client.kill)
        result = await Runner(stage, RunningTime(stage)).run(scenario)
    await stage.end()

    assert result.passed, result.failures
    assert [finding.sentence.split(" after ")[0] for finding in result.findings] == [
        "web_0 asked",
        "web_0 approved e1",
        "web_0 saw e1 Started",
        "no deviation from the protocol was seen",
    ]


@in_loop
async def test_scenario_without_a_client_reports_missing_actions() -> None:
    text = EXPECTING.replace('"20s"', '"100ms"')
    stage, where = await _stage(read_scenario(text, file="expecting.toml"), speed=SPEED)
    result = await Runner(stage, RunningTime(stage)).run(
        read_scenario(text, file="expecting.toml")
    )
    await stage.end()

    host, port = where["web_0"]
    assert [failure.sentence for failure in result.failures] == [
        (
            f"no client asked for the events of web_0 (http://{host}:{port}), so none "
            "was tested"
        )
    ]
    assert [finding.sentence for finding in result.findings if not finding.failed] == [
        "not judged: web_0 did not ask within 0.1 s",
        "not judged: web_0 did not approve e1 within 0.1 s",
        "not judged: web_0 did not see e1 Started within 0.1 s",
        "no deviation from the protocol was seen",
    ]


FAULTY = """
[[step]]
fault = "500 x2"
vms = "web_0"

[[step]]
expect = { polled_by = "web_0", within = "20s" }

[[step]]
reboot = "web_0"

[[step]]
expect = { approved_by = "web_0", within = "20s" }

[[step]]
at = "20m"
say = "it is over"
"""


@pytest.mark.parametrize("clock", ["running", "virtual"])
def test_client_survives_faults_on_either_clock(clock: str) -> None:
    """Also on a virtual clock clients on sockets have the time that they take."""

    async def play() -> tuple[Result, list[int]]:
        scenario = read_scenario(FAULTY, file="faulty.toml")
        if clock == "running":
            stage, where = await _stage(scenario, speed=SPEED)
            at, time = where["web_0"], RunningTime(stage)
        else:
            stage = virtual_stage(setup_for([scenario]))
            at = await stage.open("web_0")
            time = VirtualTime(stage, rest_seconds=0.02)
        client = asyncio.create_task(Client("web_0", at, every=0.02).live())
        result = await Runner(stage, time).run(scenario)
        client.cancel()
        await asyncio.gather(client, return_exceptions=True)
        statuses = [exchange.status for exchange in stage.journal]
        await stage.end()
        return result, statuses

    result, statuses = asyncio.run(play())

    assert result.passed, result.failures
    assert statuses[:2] == [500, 500]
    assert set(statuses[2:]) == {200}
