"""Agents with a gate on active alerts: what holds an approval back, and what does not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.agent.core.model import Stage
from forewarn.sim import fleets
from forewarn.sim.loop import LoopThread
from tests.support.agents import (
    DRAIN,
    AgentProcess,
    Ground,
    free_port,
    ground,
    handler,
)
from tests.support.fake_alerts import ALERTMANAGER, PROMETHEUS, FakeAlerts, Fires, Odd
from tests.support.fake_fleetlock import FakeFleetLock
from tests.support.processes import eventually
from tests.support.pythons import Python

pytestmark = [pytest.mark.system, pytest.mark.slow]

VMS = ("web_0", "web_1")
DISK = Fires("DiskFull", {"severity": "page"})


@pytest.fixture
def place(loop: LoopThread, python: Python, tmp_path: Path) -> Iterator[Ground]:
    fleet = fleets.fleet_text(len(VMS), together=True)
    with ground(loop, tmp_path, fleet=fleet, python=python) as new_ground:
        yield new_ground


@pytest.fixture(params=[PROMETHEUS, ALERTMANAGER])
def either(request: pytest.FixtureRequest) -> Iterator[FakeAlerts]:
    with FakeAlerts(kind=request.param) as alerts_server:
        yield alerts_server


@pytest.fixture
def alerts() -> Iterator[FakeAlerts]:
    with FakeAlerts() as alerts_server:
        yield alerts_server


def wait_held(agent: AgentProcess, alerts: FakeAlerts, *, times: int = 1) -> None:
    """Return when the event is prepared for and the server has said so often why not."""
    agent.wait_did("done prepare drain")
    since = alerts.answered
    eventually(lambda: alerts.answered - since, lambda count: count >= times)


def waits_for(agent: AgentProcess) -> str:
    """Return why the event is not approved, as the running agent says."""
    return agent.status()["events"][0]["waits_for"]


def test_alert_delays_the_approval_until_it_ends(
    place: Ground, either: FakeAlerts
) -> None:
    either.alerts = (DISK, DISK, Fires("NodeDown"), Fires("Watchdog"))
    agent = place.agent(settings=either.table + DRAIN, pages=True).wait_ready()
    event = place.event()
    wait_held(agent, either, times=2)
    agent.wait(lambda agent: "DiskFull" in waits_for(agent))
    assert "3 alerts fire: DiskFull (2), NodeDown (" in waits_for(agent)
    status = agent.command("status")
    assert "3 alerts fire: DiskFull (2), NodeDown" in status.stdout
    assert "gate      alerts since " in status.stdout
    assert either.url in status.stdout
    metrics = agent.sentence("/metrics")[1]
    assert "forewarn_agent_gate_held 1\n" in metrics
    assert "forewarn_agent_gate_alerts 3\n" in metrics
    assert 'forewarn_agent_gate_requests_total{result="clear"} 0\n' in metrics
    assert place.posts(event) == []
    either.alerts = (Fires("Watchdog"),)
    place.wait_approved(event, "web_0")
    agent.wait_stage(event, Stage.FINISHED)
    assert agent.told(event).count("gate") == 2
    assert "forewarn_agent_gate_held 0\n" in agent.sentence("/metrics")[1]


def test_approval_is_not_delayed_without_alerts(
    place: Ground, either: FakeAlerts
) -> None:
    either.alerts = (Fires("Soon", state="pending"), Fires("Quiet", state="silenced"))
    if either.kind == PROMETHEUS:
        either.alerts = either.alerts[:1]
    agent = place.agent(settings=either.table + DRAIN).wait_ready()
    event = place.event()
    place.wait_approved(event, "web_0")
    agent.wait_stage(event, Stage.FINISHED)
    assert "gate" not in agent.told(event)
    assert either.asked == 1


def test_unreachable_server_delays_the_approval_until_it_is_back(
    place: Ground, alerts: FakeAlerts
) -> None:
    agent = place.agent(settings=alerts.table + DRAIN, pages=True).wait_ready()
    alerts.end()
    event = place.event()
    agent.wait_did("done prepare drain")
    agent.wait(lambda agent: "gives no usable answer" in waits_for(agent))
    problems = agent.status()["problems"]
    assert any("gives no usable answer" in problem for problem in problems)
    assert "forewarn_agent_gate_fault 1\n" in agent.sentence("/metrics")[1]
    assert place.posts(event) == []
    alerts.begin()
    place.wait_approved(event, "web_0")
    agent.wait_stage(event, Stage.FINISHED)


def test_unreachable_server_can_be_ignored(place: Ground, alerts: FakeAlerts) -> None:
    table = alerts.table + 'unknown = "go"\n'
    agent = place.agent(settings=table + DRAIN).wait_ready()
    alerts.odd = Odd(502, b"Bad Gateway")
    event = place.event()
    place.wait_approved(event, "web_0")
    assert alerts.asked == 3
    agent.wait_stage(event, Stage.FINISHED)
    assert "approved without an answer from Prometheus" in agent.log()


GARBAGE = {
    "no JSON": Odd(body=b"<html>log in</html>"),
    "another program": Odd(body=b'{"status":"ok"}'),
    "an error": Odd(body=b'{"status":"error","errorType":"x","error":"y"}'),
    "empty": Odd(),
    "deep": Odd(body=b"[" * 200_000),
    "huge": Odd(body=b'{"status":"success","data":{"alerts":[' + b" " * (9 << 20)),
    "redirect": Odd(302, headers=(("Location", "http://127.0.0.1:1/login"),)),
    "no right": Odd(403, b"forbidden"),
    "a state": Odd(
        body=b'{"status":"success","data":{"alerts":[{"labels":{},"state":"odd"}]}}'
    ),
}


@pytest.mark.long
def test_invalid_answers_do_not_open_the_gate(
    place: Ground, alerts: FakeAlerts
) -> None:
    agent = place.agent(settings=alerts.table + DRAIN, pages=True).wait_ready()
    alerts.odd = next(iter(GARBAGE.values()))
    event = place.event()
    agent.wait_did("done prepare drain")
    for odd in GARBAGE.values():
        alerts.odd = odd
        before = alerts.asked
        # The second that comes after the change is answered so from its beginning.
        eventually(lambda: alerts.asked, (before + 2).__le__)
        agent.wait(lambda agent: "gives no usable answer" in waits_for(agent))
        assert len(waits_for(agent)) < 600
    assert place.posts(event) == []
    alerts.odd = None
    place.wait_approved(event, "web_0")


def test_thousand_alerts_give_a_bounded_text(place: Ground, alerts: FakeAlerts) -> None:
    alerts.alerts = tuple(
        Fires(f"Alert{number:04}x" + "y" * 200) for number in range(1_000)
    )
    agent = place.agent(settings=alerts.table + DRAIN, pages=True).wait_ready()
    event = place.event()
    agent.wait_did("done prepare drain")
    agent.wait(lambda agent: "1000 alerts fire" in waits_for(agent))
    assert "and 995 more names" in waits_for(agent)
    assert len(waits_for(agent)) < 700
    alerts.alerts = ()
    place.wait_approved(event, "web_0")
    assert max(map(len, agent.log().splitlines())) < 2_000


def test_slow_server_delays_neither_preparation_nor_recovery(
    place: Ground, alerts: FakeAlerts
) -> None:
    """An event waits for an answer that never comes, and everything else continues."""
    rules = (
        '[[rule]]\ntype = ["Redeploy"]\nhandlers = ["flush"]\n'
        '[[rule]]\nhandlers = ["drain"]\n'
    )
    settings = f'{alerts.table}timeout = "5m"\n{DRAIN}{handler("flush")}{rules}'
    alerts.hangs = True
    agent = place.agent(settings=settings).wait_ready()
    first = place.event()
    agent.wait_did("done prepare drain")
    eventually(lambda: alerts.waiting, bool)
    second = place.event("Redeploy")
    agent.wait_did("done prepare flush")
    assert agent.did("stopped") == []
    for event in (first, second):
        place.move(event, "started")
    for event in (first, second):
        agent.wait(lambda agent, event=event: "started" in agent.told(event))
        place.move(event, "removed")
    for event in (first, second):
        agent.wait_stage(event, Stage.FINISHED)
    assert {("recover", first), ("recover", second)} <= {
        (run.phase, run.event_id) for run in agent.did("done")
    }
    assert place.posts() == []
    assert alerts.waiting == 1


def test_agent_killed_while_delaying_delays_again(
    place: Ground, alerts: FakeAlerts
) -> None:
    alerts.alerts = (DISK,)
    agent = place.agent(settings=alerts.table + DRAIN).wait_ready()
    event = place.event()
    wait_held(agent, alerts)
    agent.kill()
    agent.again()
    before = alerts.answered
    eventually(lambda: alerts.answered, (before + 2).__le__)
    assert place.posts(event) == []
    alerts.alerts = ()
    place.wait_approved(event, "web_0")
    agent.wait_stage(event, Stage.FINISHED)
    # It was prepared for once.
    assert [run.phase for run in agent.did("done")] == ["prepare", "recover"]


def test_approval_is_withheld_at_the_deadline(
    place: Ground, alerts: FakeAlerts
) -> None:
    alerts.alerts = (DISK,)
    agent = place.agent(settings=alerts.table + DRAIN).wait_ready()
    event = place.event(notice="4s")
    agent.wait_did("done prepare drain")
    agent.wait_stage(event, Stage.FINISHED)
    assert place.posts(event) == []
    # The document that says so may be read first.
    assert re.search(
        r"not approved before (NotBefore|it started): 1 alert fires: DiskFull",
        agent.log(),
    )
    assert [run.phase for run in agent.did("done")] == ["prepare", "recover"]


def test_operator_approval_overrides_alerts(place: Ground, alerts: FakeAlerts) -> None:
    alerts.alerts = (DISK,)
    agent = place.agent(settings=alerts.table + DRAIN).wait_ready()
    event = place.event()
    wait_held(agent, alerts)
    done = agent.command("approve", event)
    assert done.returncode == 0, done.stderr
    place.wait_approved(event, "web_0")


def test_settings_are_reloaded_while_an_approval_is_delayed(
    place: Ground, alerts: FakeAlerts
) -> None:
    alerts.alerts = (DISK,)
    agent = place.agent(settings=alerts.table + DRAIN).wait_ready()
    event = place.event()
    wait_held(agent, alerts)
    file = agent.directory / "agent.toml"
    file.write_text(
        file.read_text().replace("[gate]\n", '[gate]\nignore = ["Disk*"]\n')
    )
    agent.process.send_signal(1)
    place.wait_approved(event, "web_0")
    assert "the settings were reloaded" in agent.log()


def test_secret_is_shown_only_to_the_server(place: Ground, alerts: FakeAlerts) -> None:
    alerts.token = "s3cret-of-alerts"
    token = place.directory / "token"
    token.write_text("wrong-s3cret\n")
    token.chmod(0o600)
    table = f'{alerts.table}token_file = "{token}"\n'
    agent = place.agent(settings=table + DRAIN, pages=True).wait_ready()
    event = place.event()
    agent.wait_did("done prepare drain")
    agent.wait(lambda agent: "it answered 401" in waits_for(agent))
    checked = agent.command("check")
    assert "it answered 401: no such token: Bearer (secret)" in checked.stdout
    # It is read again for each query.
    token.write_text(f"{alerts.token}\n")
    place.wait_approved(event, "web_0")
    shown = agent.log() + checked.stdout + str(agent.status())
    assert "s3cret" not in shown


def test_check_reports_firing_alerts(place: Ground, either: FakeAlerts) -> None:
    agent = place.agent(settings=either.table + DRAIN).wait_ready()
    either.alerts = (Fires("Watchdog"),)
    message = agent.command("check").stdout
    label = "Prometheus" if either.kind == PROMETHEUS else "Alertmanager"
    where = f"gate: {label} at {either.url}"
    assert (
        f"ok   {where}: no alert fires; active alerts that do not count: 1" in message
    )
    either.alerts = (DISK,)
    check = agent.command("check")
    assert f"BAD  {where}: 1 alert fires: DiskFull: events would not" in check.stdout
    assert check.returncode == 1
    either.end()
    assert f"BAD  {where}: " in agent.command("check").stdout
    either.begin()


def test_dry_run_queries_alerts_and_approves_nothing(
    place: Ground, alerts: FakeAlerts
) -> None:
    alerts.alerts = (DISK,)
    agent = place.agent(settings=alerts.table + DRAIN, top="dry_run = true", pages=True)
    agent.wait(lambda agent: "this VM's name is web_0" in agent.log())
    event = place.event()
    agent.wait(lambda agent: agent.status()["events"])
    agent.wait(lambda agent: "DiskFull" in waits_for(agent))
    alerts.alerts = ()
    agent.wait(lambda agent: "the approval would be sent now" in agent.log())
    assert place.posts(event) == []


# With the lock and with other agents


def test_vm_that_waits_for_alerts_delays_no_other_vm(
    place: Ground, alerts: FakeAlerts
) -> None:
    """web_0 has a gate and web_1 has none; both share one slot of a lock."""
    alerts.alerts = (DISK,)
    with FakeFleetLock() as locks:
        lock = f'[lock]\nkind = "fleetlock"\nurl = "{locks.url}"\n'
        gated = place.agent("web_0", alerts.table + lock + DRAIN).wait_ready()
        other = place.agent("web_1", lock + DRAIN).wait_ready()
        event, others = place.event(), place.event(vms=["web_1"])
        wait_held(gated, alerts)
        place.wait_approved(others, "web_1")
        other.wait_stage(others, Stage.FINISHED)
        eventually(locks.held, ([]).__eq__)
        assert place.posts(event) == []
        alerts.alerts = ()
        place.wait_approved(event, "web_0")
        gated.wait_stage(event, Stage.FINISHED)
        eventually(locks.held, ([]).__eq__)
        assert locks.most == {"default": 1}


def test_alert_during_the_wait_for_the_lock_delays_the_approval(
    place: Ground, alerts: FakeAlerts
) -> None:
    with FakeFleetLock(holders={"default": ["vm7"]}) as locks:
        lock = f'[lock]\nkind = "fleetlock"\nurl = "{locks.url}"\n'
        agent = place.agent(
            "web_0", alerts.table + lock + DRAIN, pages=True
        ).wait_ready()
        event = place.event()
        agent.wait(lambda agent: "waits for the lock" in str(agent.status()["events"]))
        alerts.alerts = (DISK,)
        agent.wait(lambda agent: "DiskFull" in waits_for(agent))
        with locks.lock:
            locks.holders["default"].clear()
        before = alerts.answered
        eventually(lambda: alerts.answered, (before + 3).__le__)
        assert (locks.held(), place.posts(event)) == ([], [])
        alerts.alerts = ()
        place.wait_approved(event, "web_0")
        agent.wait_stage(event, Stage.FINISHED)
        eventually(locks.held, ([]).__eq__)


def test_peers_are_still_polled_while_lock_and_gate_delay(
    place: Ground, alerts: FakeAlerts
) -> None:
    """Both approve only when each is prepared, no alert fires and the lock is had."""
    token = place.directory / "token"
    token.write_text("s3cret\n")
    ports = {vm: free_port() for vm in VMS}
    urls = ", ".join(f'{vm} = "http://127.0.0.1:{port}"' for vm, port in ports.items())
    alerts.alerts = (DISK,)
    rule = '[[rule]]\nhandlers = ["drain"]\napprover = "all"\ntakeover = "1s"\n'
    with FakeFleetLock() as locks:
        lock = f'[lock]\nkind = "fleetlock"\nurl = "{locks.url}"\n'
        agents: list[AgentProcess] = []
        for vm, port in ports.items():
            peers = (
                f'[peers]\nlisten = "127.0.0.1:{port}"\ntoken_file = "{token}"\n'
                f"url = {{ {urls} }}\n"
            )
            agents.append(place.agent(vm, peers + alerts.table + lock + DRAIN + rule))
        leader, second = (agent.wait_ready() for agent in agents)
        second.hold("drain.prepare")
        event = place.event(vms=VMS)
        leader.wait_did("done prepare drain")
        leader.wait(lambda agent: dict(agent.memory().tasks[0].peers_alive))
        # The gate is not asked before the others are prepared.
        assert alerts.asked == 0
        second.release("drain.prepare")
        eventually(lambda: alerts.answered, (1).__le__)
        heard = dict(leader.memory().tasks[0].peers_alive)["web_1"]
        leader.wait(
            lambda agent: dict(agent.memory().tasks[0].peers_alive)["web_1"] > heard
        )
        assert (locks.held(), place.posts(event)) == ([], [])
        alerts.alerts = ()
        eventually(lambda: place.approvals(event), bool)
        for agent in (leader, second):
            agent.wait_stage(event, Stage.FINISHED)
        assert place.approvals(event)[0] == "web_0"
        eventually(locks.held, ([]).__eq__)
