"""A relay with the URLs of two real replicas: its VMs do not notice who leads."""

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import postgres
from tests.support.processes import Serving, eventually
from tests.support.profiles import some
from tests.support.relays import Relaying, token

pytestmark = [pytest.mark.system, pytest.mark.slow, postgres.needing_postgres]

VM = "127.0.0.1"

FLEET = f"""
[[host]]
name = "h1"
[[vm]]
name = "web_0"
host = "h1"
address = "{VM}"
"""

PAUSE_SECONDS = 0.05
"""Time between two GETs of the VM, a twentieth of what a VM usually waits."""


class Asking:
    """A VM that asks its relay all the time, in a thread."""

    def __init__(self, relay: Relaying) -> None:
        self.statuses: list[int] = []
        self.incarnations: list[int] = []
        self._relay = relay
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._main)
        self._thread.start()

    def _main(self) -> None:
        while not self._stopping.wait(PAUSE_SECONDS):
            status, document = self._relay.ask(VM)
            self.statuses.append(status)
            if status == 200:
                self.incarnations.append(document["DocumentIncarnation"])

    def end(self) -> None:
        self._stopping.set()
        self._thread.join()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[list[Serving]]:
    with postgres.one_database(is_empty=True) as url:
        replicas = [
            Serving(
                tmp_path / name,
                FLEET,
                store_url=url,
                cluster_name=name,
                cluster_lease="1s",
                driver_simulated_reboot="500ms",
                timing_recovery="200ms",
                metadata_listen="127.0.0.1:0",
            ).wait_ready()
            for name in ("r1", "r2")
        ]
        yield replicas
        for replica in replicas:
            replica.process.send_signal(signal.SIGCONT)
            replica.process.kill()
            replica.process.wait()


@pytest.fixture
def relay(pair: list[Serving], tmp_path: Path) -> Iterator[Relaying]:
    # The one that follows is the first in the list.
    urls = [replica.urls["operators"] for replica in reversed(pair)]
    secret = token(pair[0], "h1")["token"]
    new_relay = Relaying(
        tmp_path / "h1", ",".join(urls), secret, rate_limit="0"
    ).wait_connected()
    yield new_relay
    new_relay.kill()


def announce(service: Serving) -> str:
    """Announce a reboot of the VM; return the ID of its event."""
    response = service.admin("/v1/reboot", {"vms": ["web_0"]})
    return response["operations"][0]["events"][0]["EventId"]


@pytest.mark.parametrize("how", some(["killed", "paused"], usual=["killed"]))
def test_vms_get_documents_throughout_and_approve_soon_after_a_takeover(
    pair: list[Serving], relay: Relaying, how: str
) -> None:
    first, second = pair
    assert relay.ask(VM)[0] == 200
    event = announce(first)
    relay.until(VM, lambda document: document["Events"])
    vm = Asking(relay)
    try:
        first.process.send_signal(signal.SIGKILL if how == "killed" else signal.SIGSTOP)
        eventually(lambda: relay.approve(VM, event), lambda status: status == 200)
        # The continued leader has lost its lease.
        first.process.send_signal(signal.SIGCONT)
        relay.until(VM, lambda document: not document["Events"])
        again = announce(second)
        relay.until(
            VM,
            lambda document: (
                [event["EventId"] for event in document["Events"]] == [again]
            ),
        )
    finally:
        vm.end()
    assert set(vm.statuses) == {200}
    assert vm.incarnations == sorted(vm.incarnations)
    assert "Traceback" not in second.log() + relay.log()


def test_relay_leaves_a_replica_that_leads_no_more(
    pair: list[Serving], relay: Relaying
) -> None:
    """A paused leader's stream is open when it resumes, and has no more changes."""
    first, second = pair
    assert relay.ask(VM)[0] == 200
    first.process.send_signal(signal.SIGSTOP)
    eventually(second.role, "leads".__eq__)
    first.process.send_signal(signal.SIGCONT)
    eventually(first.role, "follows".__eq__)
    event = announce(second)
    relay.until(
        VM, lambda found: [event_["EventId"] for event_ in found["Events"]] == [event]
    )
    assert relay.approve(VM, event) == 200
    assert "Traceback" not in first.log() + second.log() + relay.log()
