"""A simulator on sockets: its API, and the effects that VMs see."""

import socket
import urllib.request
from collections.abc import Iterator

import pytest

from forewarn.metadata.server import Address
from forewarn.service.listening import StartError
from forewarn.sim.loop import LoopThread
from forewarn.sim.news import What
from forewarn.sim.positions import Addresses, Places, parse_places
from forewarn.sim.scenario.file import read_scenario
from forewarn.sim.scenario.run import Runner
from forewarn.sim.scenario.setup import Setup
from forewarn.sim.scenario.time import RunningTime
from forewarn.sim.simulator import Simulator, Terms
from tests.support.open_files import open_files_up_to
from tests.support.simulators import ANYWHERE, EVENTS, Simulation, simulation

DAY = "2h"


@pytest.fixture(scope="module")
def loop() -> Iterator[LoopThread]:
    thread = LoopThread()
    yield thread
    thread.close()


@pytest.fixture(scope="module")
def running(loop: LoopThread) -> Iterator[Simulation]:
    with simulation(loop) as sim:
        yield sim


@pytest.fixture
def fresh(running: Simulation) -> Simulation:
    """Return a fresh simulator, with events enabled for `web_0`."""
    running.sim("reset", {})
    running.news.clear()
    assert running.document() == {"DocumentIncarnation": 1, "Events": []}
    return running


def test_custom_event_can_be_moved_through_its_states(fresh: Simulation) -> None:
    created = fresh.sim("events", {"type": "Preempt", "vms": ["web_0"], "notice": DAY})
    [event] = fresh.events()
    assert (event["EventType"], event["EventStatus"]) == ("Preempt", "Scheduled")
    assert event["EventSource"] == "Platform"
    name = created["operations"][0]["operation"]
    moved = fresh.sim(f"operations/{name}/move", {"to": "started"})
    assert moved["state"] == "Impacting"
    assert fresh.events()[0]["EventStatus"] == "Started"
    fresh.sim(f"operations/{event['EventId'].lower()}/move", {"to": "removed"})
    assert fresh.ask(fresh.url() + "/metadata/scheduledevents")[0] == 404


def test_event_without_notice_is_already_started_when_first_seen(
    fresh: Simulation,
) -> None:
    order = {"type": "Freeze", "vms": ["web_0"], "notice": "0s", "duration": "5s"}
    fresh.sim("events", order)
    [event] = fresh.events()
    assert (event["EventStatus"], event["DurationInSeconds"]) == ("Started", 5)


def test_clock_jump_shortens_the_time_to_not_before(fresh: Simulation) -> None:
    fresh.sim("clock", {"do": "pause"})
    fresh.sim("events", {"type": "Reboot", "vms": ["web_0"], "notice": DAY})
    before = fresh.document()
    assert fresh.sim("clock")["paused"]
    fresh.sim("clock", {"do": "jump", "by": "1h"})
    after = fresh.document()
    assert after["DocumentIncarnation"] == before["DocumentIncarnation"] + 1
    assert after["Events"][0]["NotBefore"] != before["Events"][0]["NotBefore"]
    fresh.sim("clock", {"do": "resume"})
    fresh.sim("clock", {"do": "step"})
    assert fresh.events()[0]["EventStatus"] == "Started"


@pytest.mark.parametrize("body", [{"do": "jump"}, {"do": "pause", "by": "1s"}])
def test_clock_accepts_a_length_only_for_a_jump(
    fresh: Simulation, body: dict[str, str]
) -> None:
    status, answer = fresh.api("sim/clock", body)
    assert (status, answer["kind"]) == (400, "bad-request")


def test_withheld_approval_counts_after_release(fresh: Simulation) -> None:
    fresh.sim("events", {"type": "Redeploy", "vms": ["web_0"], "notice": DAY})
    [event] = fresh.events()
    assert fresh.sim("approvals", {"do": "withhold", "vms": ["web_0"]}) == {
        "withheld": ["web_0"],
        "refusals": [],
    }
    assert fresh.approve(event["EventId"]) == 200
    assert fresh.events()[0]["EventStatus"] == "Scheduled"
    fresh.sim("approvals", {"do": "release", "vms": ["web_0"]})
    assert fresh.events()[0]["EventStatus"] == "Started"
    assert fresh.sim("approvals")["withheld"] == []


def test_vm_joins_at_a_separate_address_and_leaves(fresh: Simulation) -> None:
    joined = fresh.sim("vms", {"name": "late", "spot": True, "standalone": True})
    assert (joined["scope"], joined["host"]) == ("late", "late-host")
    assert fresh.document("late")["Events"] == []
    status, answer = fresh.api("sim/vms", {"name": "late"})
    assert (status, answer["kind"]) == (409, "refused")
    assert fresh.api("evict", {"vms": ["late"]})[0] == 201
    fresh.sim("clock", {"do": "jump", "by": DAY})
    states = {vm["vm"]: vm["state"] for vm in fresh.sim("vms")["vms"]}
    assert states["late"] == "deleted"
    assert fresh.sim("vms", {"name": "late"})["state"] == "running"
    left = fresh.sim("vms/late", method="DELETE")["vms"]
    assert [vm["vm"] for vm in left] == ["web_0", "web_1", "web_2"]
    assert fresh.api("sim/vms/late", method="DELETE")[0] == 404
    for key in ("name", "host", "scope"):
        status, answer = fresh.api("sim/vms", {"name": "odd", key: "\ud800"})
        assert (status, answer["problems"][0]["place"]) == (400, key)


def test_vm_of_an_applied_fleet_file_gets_an_address(
    fresh: Simulation,
) -> None:
    text = fresh.call(lambda simulator: simulator.terms.setup.fleet)
    text += '\n[[vm]]\nname = "filed"\nhost = "spare"\n'
    assert fresh.api("fleet/apply", {"text": text})[0] == 200
    fresh.loop.wait(fresh.simulator.settled())
    listed = {vm["vm"]: vm["url"] for vm in fresh.sim("vms")["vms"]}
    assert sorted(listed) == ["filed", "web_0", "web_1", "web_2"]
    assert all(listed.values())


def test_faults_are_set_listed_and_cleared(fresh: Simulation) -> None:
    response = fresh.sim("faults", {"vms": ["web_0"], "faults": "503, ok, loop"})
    [playing] = response["faults"]
    assert (playing["vms"], playing["loop"]) == (["web_0"], True)
    assert (
        fresh.ask(fresh.url() + "/metadata/scheduledevents?api-version=2020-07-01")[0]
        == 503
    )
    assert fresh.sim("faults")["faults"][0]["played"] == 1
    assert fresh.sim("faults/clear", {"vms": ["web_0"]}) == {"faults": []}
    assert fresh.events() == []
    status, answer = fresh.api("sim/faults", {"faults": "5000"})
    assert (status, answer["kind"]) == (400, "bad-request")
    assert fresh.api("sim/faults", {"faults": "500", "vms": ["nix"]})[0] == 404


def test_journal_lists_each_request_and_can_be_paged(fresh: Simulation) -> None:
    fresh.document("web_1")
    first = fresh.sim("journal?vm=web_1")
    [seen] = first["requests"]
    assert (seen["method"], seen["status"], seen["deviations"]) == ("GET", 200, [])
    assert fresh.sim(f"journal?after={first['next']}")["requests"] == []
    fresh.approve("C7061BAC-AFDC-4513-B24B-AA5F13A16123")
    [bad] = fresh.sim(f"journal?after={first['next']}&deviating=true")["requests"]
    assert bad["deviations"][0]["rule"] == "unknown-event"
    page = fresh.sim("journal?limit=1")
    assert len(page["requests"]) == 1
    assert fresh.sim(f"journal?limit=1&after={page['next']}")["requests"]


def test_reset_keeps_only_the_addresses(fresh: Simulation) -> None:
    before = fresh.call(lambda simulator: dict(simulator.addresses()))
    fresh.sim("vms", {"name": "late"})
    fresh.api("reboot", {"vms": ["web_1"]})
    fresh.sim("faults", {"faults": "timeout"})
    fresh.sim("reset", {})
    assert fresh.document() == {"DocumentIncarnation": 1, "Events": []}
    assert fresh.call(lambda simulator: dict(simulator.addresses())) == before
    assert len(fresh.sim("journal")["requests"]) == 1


def test_each_change_is_reported_once(fresh: Simulation) -> None:
    fresh.news.clear()
    fresh.document("web_1")
    fresh.document("web_1")
    fresh.sim("events", {"type": "Reboot", "vms": ["web_1"], "notice": DAY})
    [event] = fresh.events("web_1")
    fresh.approve(event["EventId"], "web_1")
    assert fresh.news[3].text.endswith(", approved by web_1")
    reported = [(news.what.value, news.text.split(",")[0]) for news in fresh.news]
    name = event["EventId"]
    assert reported == [
        ("asked", "web_1: got document 1 for the first time"),
        ("event", f"{name} Scheduled Reboot web_1"),
        ("asked", "web_1: got document 2"),
        ("event", f"{name} Started Reboot web_1"),
        ("approved", f"web_1: {name}"),
    ]


def test_request_of_a_deleted_vm_is_reported_once(fresh: Simulation) -> None:
    created = fresh.sim("events", {"type": "Preempt", "vms": ["web_0"], "notice": "0s"})
    fresh.sim(
        f"operations/{created['operations'][0]['operation']}/move", {"to": "removed"}
    )
    fresh.news.clear()
    for _ in range(3):
        assert fresh.ask(fresh.url() + "/metadata/scheduledevents")[0] == 404
    [told] = [news.text for news in fresh.news]
    assert told.startswith(
        "web_0: 404, since the VM is deleted; `forewarn sim vm add web_0`"
    )
    requests = fresh.sim("journal?vm=web_0")["requests"]
    assert [request["status"] for request in requests] == [200, 404, 404, 404]


def test_fault_is_reported_with_its_status(fresh: Simulation) -> None:
    fresh.sim("faults", {"vms": ["web_0"], "faults": "503"})
    fresh.news.clear()
    assert fresh.ask(fresh.url() + EVENTS)[0] == 503
    fresh.sim("faults/clear", {})
    fresh.sim("faults", {"vms": ["web_0"], "faults": "empty"})
    assert fresh.ask(fresh.url() + EVENTS) == (200, None)
    messages = [news.text for news in fresh.news if news.what is What.FAULT]
    assert messages[0].startswith("web_0: got 503")
    assert messages[0].endswith("(fault: 503)")
    assert messages[1] == "web_0: got 200 (fault: empty)"


def test_deviations_are_reported_and_further_ones_are_counted(
    fresh: Simulation,
) -> None:
    before = fresh.reporter.deviations
    for _ in range(12):
        fresh.ask(fresh.url() + "/metadata/scheduledevents?api-version=2020-01-01")
    reported = [news for news in fresh.news if news.facts.get("rule") == "version"]
    assert len(reported) == 10
    assert reported[-1].text.endswith("further ones are only counted")
    assert fresh.reporter.deviations >= before + 12


def test_api_description_lists_the_simulator_routes(fresh: Simulation) -> None:
    address = fresh.simulator.admin_address
    assert address is not None
    _, found = fresh.ask(f"http://127.0.0.1:{address[1]}/openapi.json")
    ours = {path for path in found["paths"] if path.startswith("/v1/sim/")}
    assert len(ours) == 17
    for path in ours:
        for operation in found["paths"][path].values():
            assert operation["description"], path
    schemas = found["components"]["schemas"]
    for name in ("Clock", "Event", "Move", "Approvals", "Faults", "ClearFaults"):
        assert schemas[name]["examples"], name


def test_only_operators_can_control_a_simulation(fresh: Simulation) -> None:
    _, made = fresh.api("tokens", {"name": "ci", "tenant": "shop"})
    for path, body in (("clock", None), ("journal", None), ("reset", {})):
        status, answer = fresh.api(f"sim/{path}", body, token=made["token"])
        assert (status, answer["kind"]) == (403, "forbidden"), path
    _, made = fresh.api("tokens", {"name": "screen", "read_only": True})
    assert fresh.api("sim/clock", token=made["token"])[0] == 200
    assert fresh.api("sim/clock", {"do": "pause"}, token=made["token"])[0] == 403


# Addresses


def test_port_in_use_is_skipped_or_an_error(loop: LoopThread) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        places = Places(port=port)
        moving = Addresses(vms=places, vms_may_move=True, admin=None)
        with simulation(loop, addresses=moving) as sim:
            ports = [at[1] for at in sim.simulator.addresses().values()]
            assert port not in ports
            assert ports == sorted(ports)
        strict = Addresses(vms=places, admin=None)
        simulator = loop.call(lambda: Simulator(Terms(), strict))
        with pytest.raises(StartError) as refused:
            loop.wait(simulator.start())
        assert f"127.0.0.1:{port}" in refused.value.message


def test_shortage_of_open_files_is_reported_with_a_hint(loop: LoopThread) -> None:
    simulator = loop.call(lambda: Simulator(Terms(), ANYWHERE))
    # Other tests of this process may have files open.
    with open_files_up_to(66), pytest.raises(StartError) as refused:
        loop.wait(simulator.start())
    assert "3 VMs need 67 open files; " in refused.value.message
    assert "`ulimit -n`" in refused.value.hint


def test_vm_without_a_free_address_is_not_added_and_blocks_no_other(
    loop: LoopThread,
) -> None:
    with socket.create_server(("127.0.9.4", 0)) as taken:
        port = taken.getsockname()[1]
        places = Places(host="127.0.9.1", port=port, hosts=20)
        addresses = Addresses(vms=places, admin=("127.0.0.1", 0))
        with simulation(loop, addresses=addresses) as sim:
            status, answer = sim.api("sim/vms", {"name": "late"})
            assert (status, answer["kind"]) == (503, "unavailable")
            assert f"127.0.9.4:{port}" in answer["error"]
            assert "late" not in served(sim)
            assert sim.sim("vms/web_2", method="DELETE")
            taken.close()
            sim.sim("vms", {"name": "late"})
            assert served(sim)["late"] is not None


def test_vm_added_by_others_without_an_address_is_not_an_error(
    loop: LoopThread,
) -> None:
    with socket.create_server(("127.0.9.4", 0)) as taken:
        port = taken.getsockname()[1]
        places = Places(host="127.0.9.1", port=port, hosts=20)
        addresses = Addresses(vms=places, admin=("127.0.0.1", 0))
        with simulation(loop, addresses=addresses) as sim:
            text = sim.call(lambda simulator: simulator.terms.setup.fleet)
            text += '\n[[vm]]\nname = "filed"\nhost = "spare"\n'
            assert sim.api("fleet/apply", {"text": text})[0] == 200
            loop.wait(sim.simulator.settled())
            assert served(sim)["filed"] is None
            assert sim.sim("vms", {"name": "late"})["url"].endswith(f".5:{port}")
            sim.sim("vms/late", method="DELETE")
            # The other program frees the port, and the next attempt succeeds.
            taken.close()
            sim.sim("vms", {"name": "later"})
            assert served(sim)["filed"] is not None


def test_operator_port_is_not_given_to_a_vm(loop: LoopThread) -> None:
    with socket.create_server(("127.0.9.2", 0)) as chosen:
        port = chosen.getsockname()[1]
    addresses = Addresses(
        vms=Places(host="127.0.9.1", port=port, hosts=20), admin=("127.0.9.2", port)
    )
    with simulation(loop, addresses=addresses) as sim:
        sim.sim("vms", {"name": "late"})
        hosts = [at[0] for at in sim.simulator.addresses().values()]
    assert hosts == ["127.0.9.1", "127.0.9.3", "127.0.9.4", "127.0.9.5"]


def served(found: Simulation) -> dict[str, str | None]:
    return {vm["vm"]: vm["url"] for vm in found.sim("vms")["vms"]}


def test_operator_api_uses_the_next_free_port(loop: LoopThread) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        addresses = Addresses(
            vms=Places(port=0), admin=("127.0.0.1", port), admin_may_move=True
        )
        with simulation(loop, addresses=addresses) as sim:
            address = sim.simulator.admin_address
            assert address is not None
            assert address[1] > port


def test_vms_are_ordered_by_the_numbers_in_their_names(loop: LoopThread) -> None:
    addresses = Addresses(vms=Places(host="127.0.7.1", port=0, hosts=20), admin=None)
    text = "".join(
        f'[[host]]\nname = "h{n}"\n[[vm]]\nname = "w_{n}"\nhost = "h{n}"\n'
        for n in range(12)
    )
    with simulation(loop, Terms(setup=Setup(fleet=text)), addresses) as sim:
        hosts = {vm: at[0] for vm, at in sim.simulator.addresses().items()}
    assert (hosts["w_2"], hosts["w_10"]) == ("127.0.7.3", "127.0.7.11")


def test_many_simulators_run_in_parallel(loop: LoopThread) -> None:
    with simulation(loop) as one, simulation(loop) as other:
        one.document()
        one.api("reboot", {"vms": ["web_0"]})
        assert len(one.events()) == 1
        assert other.events() == []


def test_scenario_starts_only_after_a_valid_request_for_events(
    running: Simulation,
) -> None:
    """Other requests do not enable events, so events would come without notice."""
    running.sim("reset", {})
    running.news.clear()
    scenario = read_scenario('[[step]]\nreboot = "web_1"\n', file="mine.toml")

    def may_begin() -> bool:
        stage = running.simulator.stage
        runner = Runner(stage, RunningTime(stage))
        return running.loop.wait(runner.wait_for_clients([scenario], seconds=0.0))

    base = running.url("web_1")
    instance = "/metadata/instance?api-version=2021-02-01"
    assert running.ask(base + instance)[1]["compute"]["name"] == "web_1"
    assert running.ask(base + EVENTS.replace("2020-07-01", "1999-01-01"))[0] == 400
    assert running.ask(base + EVENTS.replace("events", "event"))[0] == 404
    running.sim("faults", {"vms": ["web_1"], "faults": "500"})
    assert running.ask(base + EVENTS)[0] == 500
    assert not may_begin()
    assert What.ASKED not in {news.what for news in running.news}
    running.sim("faults/clear", {"vms": ["web_1"]})
    running.document("web_1")
    assert may_begin()


class AskedWhileItStarts(Simulator):
    """A simulator whose first address gets a request as soon as it is bound."""

    client: socket.socket | None = None

    def _is_ours(self, address: Address) -> bool:
        host, port = address
        if host.endswith(".2"):
            # The first address is bound, and its VM is not assigned yet.
            self.client = socket.create_connection((host[:-1] + "1", port), 10)
            request = f"GET {EVENTS} HTTP/1.1\r\nHost: a\r\nMetadata: true\r\n\r\n"
            self.client.sendall(request.encode())
        return super()._is_ours(address)


def test_address_returns_503_while_the_simulator_starts(loop: LoopThread) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    places = parse_places(f"127.0.87.0/24:{port}")

    async def started() -> AskedWhileItStarts:
        simulator = AskedWhileItStarts(Terms(), Addresses(vms=places, admin=None))
        await simulator.start()
        return simulator

    simulator = loop.wait(started())
    client = simulator.client
    assert client is not None
    try:
        with client, client.makefile("rb") as answer:
            head = answer.read().decode()
        assert head.startswith("HTTP/1.1 503 ")
        assert "Retry-After: 1\r\n" in head
        assert "The simulator is starting" in head
        # The VM is assigned at the next connection.
        (host, port), *_ = simulator.addresses().values()
        with urllib.request.urlopen(
            urllib.request.Request(
                f"http://{host}:{port}{EVENTS}", headers={"Metadata": "true"}
            ),
            timeout=10,
        ) as found:
            assert found.status == 200
    finally:
        loop.wait(simulator.stop())
