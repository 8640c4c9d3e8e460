"""The first relay with this service, and its upgrade: 0.1.0 had none."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.earlier import unpack
from tests.support.processes import Serving, eventually
from tests.support.relays import Relaying, token

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.long]

FIRST = "8813af06637c0ab6bd451ca0442949b439c52fcf"
"""The commit that added the relay."""

VM = "127.0.0.1"

FLEET = f"""
[[host]]
name = "h1"
[[vm]]
name = "web_0"
host = "h1"
address = "{VM}"
"""


@pytest.fixture(scope="session")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Return the words under which Python runs the first relay."""
    source = unpack(FIRST, "first relay", tmp_path_factory.mktemp("first"))
    prefix = ("env", f"PYTHONPATH={source}")
    where = "import forewarn.relay as it; print(it.__file__)"
    ran = subprocess.run(
        [*prefix, sys.executable, "-c", where], capture_output=True, check=True
    )
    assert str(source) in ran.stdout.decode()
    return prefix


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Serving]:
    serving = Serving(tmp_path / "service", FLEET).wait_ready()
    yield serving
    serving.kill()


def test_first_relay_answers_approves_and_is_upgraded(
    service: Serving, first: tuple[str, ...], tmp_path: Path
) -> None:
    url, place = service.urls["operators"], tmp_path / "h1"
    secret = token(service, "h1")["token"]
    relay = Relaying(place, url, secret, is_forked=False, under=first).wait_connected()
    try:
        assert relay.ask(VM) == (200, {"DocumentIncarnation": 1, "Events": []})
        order = service.admin("/v1/reboot", {"vms": ["web_0"], "not_before": "+24h"})
        event = order["operations"][0]["events"][0]["EventId"]
        shown = relay.until(VM, lambda document: document["Events"])
        assert [event_["EventId"] for event_ in shown["Events"]] == [event]
        assert relay.approve(VM, event) == 200
        # Its approval lets the work start, and the VM sees it.
        relay.until(VM, lambda document: document != shown)
        # The relay of today continues from the file of the first one.
        relay.kill()
        relay = Relaying(place, url, secret).wait_connected()
        assert "knows 1 VMs of h1 since the last run" in relay.log()
        assert relay.ask(VM)[0] == 200
        eventually(
            lambda: service.admin("/v1/relays")["relays"],
            lambda relays: relays[0]["connected"],
        )
    finally:
        relay.kill()
