"""Servers that echo requests, and special files, tested with real agents."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from forewarn.agent.core.model import Stage
from forewarn.sim import fleets
from forewarn.sim.loop import LoopThread
from tests.support.agents import DRAIN, AgentProcess, Ground, ground
from tests.support.fake_alerts import FakeAlerts, Fires, Odd
from tests.support.fake_fleetlock import FakeFleetLock
from tests.support.fake_fleetlock import Odd as OddLock
from tests.support.processes import PATIENCE_SECONDS, eventually
from tests.support.pythons import Python
from tests.support.receivers import receiving

pytestmark = [pytest.mark.system, pytest.mark.slow]

TOKEN, HEADER = "s3cret/of-alerts+locks", "hunter2-of-a-header"


@pytest.fixture
def place(loop: LoopThread, python: Python, tmp_path: Path) -> Iterator[Ground]:
    with ground(
        loop, tmp_path, fleet=fleets.fleet_text(1), python=python
    ) as new_ground:
        yield new_ground


@pytest.fixture
def token(place: Ground) -> Path:
    file = place.directory / "token"
    file.write_text(f"{TOKEN}\n")
    file.chmod(0o600)
    return file


@pytest.fixture
def alerts() -> Iterator[FakeAlerts]:
    with FakeAlerts() as alerts_server:
        yield alerts_server


def echo(alerts: FakeAlerts, body: str, status: int = 200) -> None:
    alerts.odd = Odd(status, body.encode())


def firing(name: str) -> str:
    alert = Fires(name, {"severity": name}).of_prometheus()
    alert["annotations"] = {"summary": name}
    return json.dumps({"status": "success", "data": {"alerts": [alert]}})


COMMANDS = (("status",), ("status", "--json"), ("check",), ("check", "--json"))


def everything(
    agent: AgentProcess, *more: str, commands: Sequence[Sequence[str]] = COMMANDS
) -> str:
    """Return whatever can be read of an agent but its settings, with its journal."""
    texts = [agent.log(), *more]
    texts += [agent.sentence(f"/{page}")[1] for page in ("metrics", "status", "readyz")]
    for arguments in commands:
        done = agent.command(*arguments)
        texts += [done.stdout, done.stderr]
    texts += [
        path.read_bytes().decode("latin-1")
        for path in agent.directory.rglob("*")
        if path.is_file() and path.suffix != ".toml"
    ]
    return "\n".join(texts).lower()


def assert_no_secret(shown: str) -> None:
    for secret in (TOKEN, TOKEN.replace("/", "%2f"), TOKEN.replace("/", "\\/"), HEADER):
        assert secret[:8] not in shown
        assert secret not in shown


def test_token_echoed_by_alerts_is_never_shown(
    place: Ground, alerts: FakeAlerts, token: Path
) -> None:
    table = f'{alerts.table}token_file = "{token}"\n'
    with receiving() as hook:
        hook.usual, hook.echoes = 500, True
        sink = (
            f'[[notify]]\nkind = "webhook"\nurl = "{hook.url}/x?key={HEADER}"\n'
            f'headers = {{ X-Api-Key = "{HEADER}" }}\n'
        )
        settings = f'{table}{sink}secret_file = "{token}"\n{DRAIN}'
        agent = place.agent(settings=settings, pages=True).wait_ready()
        echo(alerts, firing(f"Leak {TOKEN}"))
        event = place.event()
        agent.wait_did("done prepare drain")
        agent.wait(lambda agent: "Leak (secret)" in waits_for(agent))
        assert_no_secret(everything(agent))
        for body, status in (
            (f"no such token: Bearer {TOKEN.upper()}", 401),
            (json.dumps({"status": "error", "errorType": "x", "error": TOKEN}), 200),
            (TOKEN.replace("/", "%2F"), 500),
            (TOKEN.replace("/", "\\/"), 403),
        ):
            echo(alerts, body, status)
            before = alerts.asked
            eventually(lambda: alerts.asked, (before + 2).__le__)
            agent.wait(lambda agent: "no usable answer" in waits_for(agent))
            agent.wait(lambda agent: "(secret)" in waits_for(agent))
            # The commands show what `/status` has, and ask the same as the gate.
            assert_no_secret(everything(agent, commands=[("check",)]))
        agent.wait(lambda agent: "accepts no notifications" in str(agent.status()))
        alerts.odd = None
        place.wait_approved(event, "web_0")
        agent.wait_stage(event, Stage.FINISHED)
        assert_no_secret(everything(agent, *(request.body for request in hook.came)))
    # The gate failed, not the Reboot.
    assert "Reboot gate: Prometheus at" in agent.log()
    assert "Reboot failed" not in agent.log()


@pytest.mark.long
def test_token_echoed_by_a_lock_is_never_shown(place: Ground, token: Path) -> None:
    with FakeFleetLock() as lock:
        table = (
            f'[lock]\nkind = "fleetlock"\nurl = "{lock.url}"\ntoken_file = "{token}"\n'
        )
        held = json.dumps({"kind": "failed_lock", "value": f"not for {TOKEN}"})
        broken = json.dumps({"kind": f"x_{TOKEN}", "value": "\x1b[2J\nERROR forged"})
        lock.odd = [
            OddLock(409, held.encode()),
            OddLock(500, broken.encode()),
            OddLock(200, json.dumps({"error": TOKEN}).encode()),
            OddLock(302, headers=(("Location", f"/login?for={TOKEN}"),)),
        ]
        agent = place.agent(settings=table + DRAIN, pages=True).wait_ready()
        event = place.event()
        place.wait_approved(event, "web_0")
        agent.wait_stage(event, Stage.FINISHED)
        assert len(lock.came) >= 5
        shown = everything(agent)
    assert "(secret)" in shown
    assert_no_secret(shown)
    assert "\nerror forged" not in shown
    assert "reboot lock: the lock default" in shown


# Special files


def waits_for(agent: AgentProcess) -> str:
    return agent.status()["events"][0]["waits_for"]


def zero(place: Path) -> None:
    place.symlink_to("/dev/zero")


MAKERS = pytest.mark.parametrize(
    ("make", "kind"), [(os.mkfifo, "a FIFO"), (zero, "a device")], ids=["FIFO", "zero"]
)


@MAKERS
def test_token_file_replaced_by_another_type_is_reported(
    place: Ground,
    alerts: FakeAlerts,
    token: Path,
    make: Callable[[Path], None],
    kind: str,
) -> None:
    table = f'{alerts.table}token_file = "{token}"\n'
    agent = place.agent(settings=table + DRAIN, pages=True).wait_ready()
    token.unlink()
    make(token)
    event = place.event()
    agent.wait_did("done prepare drain")
    agent.wait(lambda agent: f"it is {kind}, and must be" in waits_for(agent))
    assert str(token) in waits_for(agent)
    agent.wait(
        lambda agent: "gate_fault 1\n" in agent.sentence("/metrics")[1], "the metric"
    )
    checked = agent.command("check")
    assert f"{token} cannot be read: it is {kind}" in checked.stdout
    token.unlink()
    token.write_text(f"{TOKEN}\n")
    place.wait_approved(event, "web_0")


def test_unreadable_token_holds_no_approval_if_unknown_is_go(
    place: Ground, alerts: FakeAlerts, token: Path
) -> None:
    table = f'{alerts.table}token_file = "{token}"\nunknown = "go"\n'
    agent = place.agent(settings=table + DRAIN).wait_ready()
    token.unlink()
    os.mkfifo(token)
    event = place.event()
    place.wait_approved(event, "web_0")
    assert "approved without an answer from Prometheus" in agent.log()
    assert alerts.asked == 0


@MAKERS
def test_settings_path_that_is_not_a_file_is_refused_at_once(
    place: Ground, make: Callable[[Path], None], kind: str
) -> None:
    agent = place.agent(pages=True).wait_ready()
    file = agent.directory / "agent.toml"
    text = file.read_text()
    file.unlink()
    make(file)
    why = f"agent.toml: cannot be read: it is {kind}, and must be a regular file"
    for arguments in ((), ("settings",), ("status",), ("check",)):
        done = agent.command(*arguments)
        assert done.returncode == 2
        assert why in done.stderr
    agent.process.send_signal(signal.SIGHUP)
    agent.wait(lambda agent: why in agent.log())
    event = place.event()
    place.wait_approved(event, "web_0")
    file.unlink()
    file.write_text(text)
    agent.process.send_signal(signal.SIGHUP)
    agent.wait(lambda agent: "the settings were reloaded" in agent.log())


def test_peer_token_that_is_not_a_file_stops_the_start(place: Ground) -> None:
    token = place.directory / "fifo"
    os.mkfifo(token)
    peers = f'[peers]\nlisten = "127.0.0.1:0"\ntoken_file = "{token}"\n'
    agent = place.agent(settings=peers + DRAIN)
    assert agent.process.wait(PATIENCE_SECONDS) == 2
    assert "it is a FIFO, and must be a regular file" in agent.log()
