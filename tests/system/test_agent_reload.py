"""A running agent is given other settings, good ones and bad ones."""

import os
import signal
import socket
import threading
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
from tests.support.pythons import Python

pytestmark = [pytest.mark.system, pytest.mark.slow]

RULE = '[[rule]]\nhandlers = ["drain"]\n'
OTHER = '[[rule]]\nhandlers = ["flush"]\n'


@pytest.fixture
def place(
    loop: LoopThread,
    python: Python,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Ground]:
    state = tmp_path / "state"
    state.mkdir()
    monkeypatch.setenv("STATE_DIRECTORY", str(state))
    with ground(
        loop, tmp_path, fleet=fleets.fleet_text(1), python=python
    ) as new_ground:
        yield new_ground


def edit(agent: AgentProcess, old: str, new: str) -> None:
    file = agent.directory / "agent.toml"
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(
        text.replace(old, new).replace("DIRECTORY", str(agent.directory)),
        encoding="utf-8",
    )


def reload(agent: AgentProcess) -> None:
    os.kill(agent.process.pid, signal.SIGHUP)


def has_said(agent: AgentProcess, message: str) -> AgentProcess:
    return agent.wait(lambda agent_: message in agent_.log(), message)


def has_reloaded(agent: AgentProcess, times: int) -> None:
    message = "the settings were reloaded"
    agent.wait(lambda agent_: agent_.log().count(message) == times, message)


def test_new_settings_take_effect_without_a_restart(place: Ground) -> None:
    agent = place.agent(settings=DRAIN + RULE, pages=True).wait_ready()
    pid = agent.process.pid
    edit(agent, RULE, handler("flush") + OTHER)
    reload(agent)
    has_said(agent, "the settings were reloaded")
    event = place.event()
    agent.wait_did("done prepare flush").wait_stage(event, Stage.FINISHED)
    assert {run.handler for run in agent.did()} == {"flush"}
    assert agent.status()["process"] == pid
    assert agent.process.pid == pid


def test_refused_settings_change_nothing(place: Ground) -> None:
    agent = place.agent(settings=DRAIN + RULE, pages=True).wait_ready()
    edit(agent, '["drain"]', '["drian"]')
    reload(agent)
    has_said(agent, "the new settings are refused")
    [problem] = agent.status()["problems"]
    assert 'did you mean \\"drain\\"' in problem or "drian" in problem
    assert "forewarn_agent_settings_fault 1" in agent.sentence("/metrics")[1]
    assert agent.sentence("/readyz")[0] == 200
    event = place.event()
    agent.wait_did("done prepare drain").wait_stage(event, Stage.FINISHED)
    edit(agent, '["drian"]', '["drain"]')
    reload(agent)
    has_said(agent, "the settings were reloaded")
    assert agent.status()["problems"] == []


def test_settings_that_fail_in_use_change_nothing(place: Ground) -> None:
    """A token that is missing is found as the agent is put together."""
    agent = place.agent(settings=DRAIN + RULE, pages=True).wait_ready()
    peers = '[peers]\nlisten = "127.0.0.1:0"\ntoken_file = "nowhere"\n'
    edit(agent, DRAIN.splitlines()[0], f"{peers}[[handler]]")
    reload(agent)
    has_said(agent, "the new settings are refused, so the old ones stay in effect")
    event = place.event()
    agent.wait_did("done prepare drain").wait_stage(event, Stage.FINISHED)
    assert any("nowhere" in problem for problem in agent.status()["problems"])


def test_reload_waits_for_a_handler_and_prepared_work_is_recovered(
    place: Ground,
) -> None:
    agent = place.agent(settings=DRAIN + RULE).wait_ready()
    agent.hold("drain.prepare")
    event = place.event()
    agent.wait_did("begun prepare drain")
    edit(agent, RULE, handler("flush") + OTHER)
    reload(agent)
    has_said(agent, "will be reloaded when no handler is running")
    agent.release("drain.prepare")
    has_said(agent, "the settings were reloaded")
    agent.wait_stage(event, Stage.FINISHED)
    done = [run[1:3] for run in agent.did("done")]
    assert done.count(("prepare", "drain")) == 1
    assert done.count(("recover", "drain")) == 1
    # It was approved after all, by who had prepared it.
    assert place.approvals(event) == ["web_0"]


def test_reload_keeps_the_state_of_the_endpoint(place: Ground) -> None:
    """It would be out of service at each reload, until the first answer."""
    agent = place.agent(settings=DRAIN + RULE, pages=True).wait_ready()
    agent.wait(lambda agent_: agent_.status()["problems"] == [])
    began = agent.status()["began"]
    place.faults("500")
    reload(agent)
    has_said(agent, "the settings were reloaded")
    agent.wait(lambda agent_: agent_.status()["began"] != began)
    assert agent.sentence("/readyz") == (200, "ok\n")
    status = agent.status()
    assert status["problems"] == []
    assert status["poll"]["age_seconds"] > 0
    # Of another endpoint nothing is known.
    edit(agent, 'poll = "100ms"', 'poll = "100ms"\nname = "web_0"')
    reload(agent)
    has_reloaded(agent, 2)
    agent.wait(lambda agent_: agent_.sentence("/readyz")[0] == 503)
    [problem] = agent.status()["problems"]
    assert problem.startswith("the endpoint has not answered yet")
    place.clear()
    agent.wait(lambda agent_: agent_.sentence("/readyz")[0] == 200)


def test_health_requests_are_answered_during_a_reload(place: Ground) -> None:
    agent = place.agent(settings=DRAIN + RULE, pages=True).wait_ready()
    agent.wait(lambda agent_: agent_.sentence("/readyz")[0] == 200)
    bodies: set[object] = set()
    is_over = threading.Event()

    def probe() -> None:
        while not is_over.is_set():
            for path in ("/healthz", "/readyz"):
                try:
                    bodies.add(agent.sentence(path))
                except OSError as error:
                    bodies.add(repr(error))

    prober = threading.Thread(target=probe)
    prober.start()
    try:
        for count in range(1, 6):
            reload(agent)
            has_reloaded(agent, count)
    finally:
        is_over.set()
        prober.join()
    assert bodies == {(200, "ok\n")}
    # Addresses of older settings are closed.
    port = free_port()
    edit(agent, f"127.0.0.1:{agent.port}", f"127.0.0.1:{port}")
    reload(agent)
    old, agent.port = agent.port, port
    has_reloaded(agent, 6)
    assert agent.sentence("/readyz")[0] == 200
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", old))


@pytest.mark.long
def test_many_reloads_lose_no_event(place: Ground) -> None:
    agent = place.agent(settings=DRAIN + RULE).wait_ready()
    for _ in range(6):
        reload(agent)
        event = place.event()
        reload(agent)
        agent.wait_did(*["done recover drain"] * (len(agent.did("done")) // 2 + 1))
        agent.wait_stage(event, Stage.FINISHED)
    done = [run[1:] for run in agent.did("done")]
    assert len(done) == len(set(done)) == 12


@pytest.mark.parametrize("left", [0, 4])
def test_truncated_file_changes_nothing(place: Ground, left: int) -> None:
    agent = place.agent(settings=DRAIN + RULE, pages=True).wait_ready()
    file = agent.directory / "agent.toml"
    whole = file.read_text(encoding="utf-8")
    [copy] = (agent.directory.parent / "state").glob("settings-*.toml")
    lines = whole.splitlines(keepends=True)
    assert "[[handler]]" not in "".join(lines[:left])
    file.write_text("".join(lines[:left]), encoding="utf-8")
    reload(agent)
    has_said(agent, "was it truncated?")
    assert "forewarn_agent_settings_fault 1" in agent.sentence("/metrics")[1]
    assert copy.read_text(encoding="utf-8") == whole
    event = place.event()
    agent.wait_did("done prepare drain").wait_stage(event, Stage.FINISHED)
    file.write_text(whole, encoding="utf-8")
    reload(agent)
    has_said(agent, "the settings were reloaded")
    assert agent.status()["problems"] == []


def test_start_with_an_empty_file_uses_the_last_valid_settings(place: Ground) -> None:
    agent = place.agent(settings=DRAIN + RULE).wait_ready()
    assert agent.terminate() == 0
    (agent.directory / "agent.toml").write_text("", encoding="utf-8")
    agent.again()
    has_said(agent, "is empty; was it truncated?")
    event = place.event()
    agent.wait_did("done prepare drain").wait_stage(event, Stage.FINISHED)


def test_commands_reach_an_agent_with_a_broken_settings_file(
    place: Ground,
) -> None:
    agent = place.agent(settings=DRAIN + RULE, pages=True).wait_ready()
    file = agent.directory / "agent.toml"
    file.write_text(f"{file.read_text(encoding='utf-8')}\nno toml", encoding="utf-8")
    shown = agent.command("status")
    assert shown.returncode == 0
    assert shown.stdout.startswith("vm        web_0\n")
    assert "the last good ones are in effect" in shown.stderr
    agent.hold("drain.prepare")
    event = place.event()
    agent.wait_did("begun prepare drain")
    ordered = agent.command("approve", event)
    assert ordered.returncode == 0, ordered.stderr
    assert "the last good ones are in effect" in ordered.stderr
    agent.release("drain.prepare")
    agent.wait_stage(event, Stage.FINISHED)
    assert place.approvals(event) == ["web_0"]
    assert agent.command("check").returncode == 2


def test_start_with_a_bad_file_uses_the_last_valid_settings(place: Ground) -> None:
    agent = place.agent(settings=DRAIN + RULE, pages=True).wait_ready()
    assert agent.terminate() == 0
    edit(agent, '["drain"]', '["drian"]')
    agent.again()
    has_said(agent, "the last good ones are in effect")
    event = place.event()
    agent.wait_did("done prepare drain").wait_stage(event, Stage.FINISHED)
    assert agent.command("settings").returncode == 2
    edit(agent, '["drian"]', '["drain"]')
    reload(agent)
    has_said(agent, "the settings were reloaded")
    assert agent.status()["problems"] == []
