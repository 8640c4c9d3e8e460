"""One address for each position, in every world."""

import http.client
import socket
import threading
from collections.abc import Iterator

import pytest

from forewarn.metadata.connection import Connection
from forewarn.metadata.server import Address
from forewarn.protocol.errors import RefusedError
from forewarn.service.listening import StartError
from forewarn.sim.loop import LoopThread
from forewarn.sim.news import What
from forewarn.sim.positions import Addresses, Places, Positions
from forewarn.sim.scenario import builtin
from forewarn.sim.scenario.setup import Setup, setup_for
from forewarn.sim.simulator import Simulator, Terms
from tests.support.simulators import ANYWHERE, EVENTS, Simulation, simulation

NAME = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"


@pytest.fixture(scope="module")
def loop() -> Iterator[LoopThread]:
    thread = LoopThread()
    yield thread
    thread.close()


def fleet(*names: str, listen: str = "") -> Terms:
    """Return a world of these VMs; optionally the first VM has a listener."""
    own = f'listen = "{listen}"\n' if listen else ""
    text = "".join(
        f'[[host]]\nname = "{name}-host"\n'
        f'[[vm]]\nname = "{name}"\nhost = "{name}-host"\n{own if not at else ""}'
        for at, name in enumerate(names)
    )
    return Terms(setup=Setup(fleet=text))


def played(scenario: str) -> Terms:
    return Terms(setup=setup_for([builtin.find(scenario)]))


def begin(found: Simulation, terms: Terms) -> dict[str, int]:
    """Start a world; return the port of each VM."""
    found.loop.wait(found.simulator.begin_with(terms))
    return ports(found)


def ports(found: Simulation) -> dict[str, int]:
    addresses = found.call(lambda simulator: simulator.addresses())
    return {vm: port for vm, (_, port) in addresses.items()}


def asked(port: int) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", EVENTS, headers={"Metadata": "true"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_renamed_vms_keep_the_addresses_in_order(
    loop: LoopThread,
) -> None:
    with simulation(loop, played("live-migration")) as sim:
        first = ports(sim)
        assert [*first] == ["web_0", "web_1", "web_2"]
        other = begin(sim, fleet("db_1", "db_0", "db_2"))
        assert [*other] == ["db_0", "db_1", "db_2"]
        assert [*other.values()] == [*first.values()]
        spot = begin(sim, played("spot-preemption"))
        assert spot == {
            "spot_0": first["web_0"],
            "spot_1": first["web_1"],
        }
        assert begin(sim, played("live-migration")) == first
        sim.sim("reset", {})
        assert ports(sim) == first


def test_each_new_world_reports_the_addresses_of_its_vms(loop: LoopThread) -> None:
    with simulation(loop, fleet("a", "b")) as sim:
        begin(sim, fleet("c"))
        at = ports(sim)["c"]
        serving = [news for news in sim.news if news.what is What.SERVING]
        assert [news.facts["vm"] for news in serving] == ["a", "b", "c", None]
        assert (
            serving[0].facts["url"]
            == serving[2].facts["url"]
            == f"http://127.0.0.1:{at}"
        )
        assert "position 2 at http://127.0.0.1:" in serving[3].text
        sim.news.clear()
        sim.sim("vms", {"name": "late"})
        [joined] = [news for news in sim.news if news.what is What.SERVING]
        assert joined.facts == {"vm": "late", "url": serving[1].facts["url"]}


def test_position_without_a_vm_returns_404_with_the_reason(loop: LoopThread) -> None:
    with simulation(loop, fleet("a", "b")) as sim:
        vacant = ports(sim)["b"]
        begin(sim, fleet("c"))
        sim.news.clear()
        for _ in range(2):
            status, body = asked(vacant)
            assert status == 404
            assert b"This world has no VM at this address" in body
        assert [news.text for news in sim.news] == [
            "position 2: 404, since this world has no VM there"
        ]
        # A VM that joins gets it, and is served there at once.
        assert sim.sim("vms", {"name": "late"})["url"].endswith(f":{vacant}")
        assert asked(vacant)[0] == 200


def test_position_of_a_removed_vm_is_not_reused(loop: LoopThread) -> None:
    with simulation(loop, fleet("a", "b")) as sim:
        before = ports(sim)
        sim.sim("vms/b", method="DELETE")
        assert asked(before["b"])[0] == 404
        sim.sim("vms", {"name": "c"})
        assert ports(sim)["c"] not in before.values()
        sim.sim("vms", {"name": "b"})
        assert ports(sim)["b"] == before["b"]


def test_addresses_of_later_worlds_are_bound_at_the_start(loop: LoopThread) -> None:
    simulator = loop.call(lambda: Simulator(fleet("a"), ANYWHERE, places=3))
    served: list[tuple[str, int]] = []
    simulator.on_served.append(lambda name, at: served.append((name, at[1])))
    loop.wait(simulator.start())
    try:
        assert [name for name, _ in served] == ["a", "position 2", "position 3"]
        at = [port for _, port in served]
        assert asked(at[2])[0] == 404
        loop.wait(simulator.begin_with(fleet("x", "y", "z")))
        assert served[3:] == [("x", at[0]), ("y", at[1]), ("z", at[2])]
    finally:
        loop.wait(simulator.stop())


def test_unexpectedly_larger_world_gets_more_addresses(
    loop: LoopThread,
) -> None:
    with simulation(loop, fleet("a")) as sim:
        first = ports(sim)["a"]
        larger = begin(sim, fleet("x", "y"))
        assert larger["x"] == first
        assert asked(larger["y"])[0] == 200


def test_world_without_enough_addresses_changes_nothing(loop: LoopThread) -> None:
    with socket.create_server(("127.0.9.3", 0)) as taken:
        port = taken.getsockname()[1]
        few = Addresses(vms=Places(host="127.0.9.1", port=port, hosts=2), admin=None)
        with simulation(loop, fleet("a", "b"), few) as sim:
            with pytest.raises(
                RefusedError, match="no address is left: 2 VMs have one"
            ):
                begin(sim, fleet("x", "y", "z"))
            assert [*ports(sim)] == ["a", "b"]
            assert sim.document("b")["Events"] == []
        strict = Addresses(vms=Places(host="127.0.9.1", port=port, hosts=9), admin=None)
        with simulation(loop, fleet("a", "b"), strict) as sim:
            with pytest.raises(StartError, match=f"127.0.9.3:{port}"):
                begin(sim, fleet("x", "y", "z"))
            assert sim.document("b")["Events"] == []
            taken.close()
            assert [*begin(sim, fleet("x", "y", "z"))] == ["x", "y", "z"]


def test_listener_from_a_fleet_file_uses_no_position(loop: LoopThread) -> None:
    with socket.create_server(("127.0.9.9", 0)) as chosen:
        port = chosen.getsockname()[1]
    own = f"127.0.9.9:{port}"
    with simulation(loop, fleet("a", "b", listen=own)) as sim:
        first = sim.call(lambda simulator: dict(simulator.addresses()))
        assert first["a"] == ("127.0.9.9", port)
        assert begin(sim, fleet("x")) == {"x": first["b"][1]}
        again = fleet("y", "z", listen=own)
        assert begin(sim, again) == {"y": port, "z": first["b"][1]}


def test_connection_continues_in_the_next_world(loop: LoopThread) -> None:
    """One unused connection, and one that is kept for the next poll."""
    with simulation(loop, fleet("a", "b")) as sim:
        port = ports(sim)["a"]
        unasked = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        unasked.connect()
        reused = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        reused.request("GET", NAME, headers={"Metadata": "true"})
        assert reused.getresponse().read() == b"a"
        begin(sim, fleet("x", "y"))
        for connection in (unasked, reused):
            first = connection.sock
            connection.request("GET", NAME, headers={"Metadata": "true"})
            assert connection.getresponse().read() == b"x"
            assert connection.sock is first
            connection.close()


def test_no_client_is_refused_during_a_change_of_worlds(loop: LoopThread) -> None:
    """The listeners stay, so a client that connects in between reaches either world."""
    with simulation(loop, fleet("a")) as sim:
        port, over = ports(sim)["a"], threading.Event()
        statuses: list[int] = []

        def poll() -> None:
            while not over.is_set():
                statuses.append(asked(port)[0])

        client = threading.Thread(target=poll)
        client.start()
        try:
            for number in range(20):
                begin(sim, fleet(f"vm_{number}"))
        finally:
            over.set()
            client.join()
        assert statuses
        assert set(statuses) == {200}


def test_each_address_is_checked_once(
    loop: LoopThread,
) -> None:
    looked_at: list[Address] = []

    def is_taken(address: Address) -> bool:
        looked_at.append(address)
        return False

    def connect(_name: str) -> Connection:
        raise AssertionError("nobody connects")

    async def reserve() -> None:
        places = Addresses(vms=Places(port=0), admin=None)
        positions = Positions(places, connect=connect, is_taken=is_taken)
        await positions.reserve(100)
        positions.begin([f"vm_{number}" for number in range(90)])
        for number in range(150):
            await positions.place(f"vm_{number}")
        assert len(positions) == len(positions.addresses()) == 150
        positions.close()

    loop.wait(reserve())
    assert len(looked_at) == 150
