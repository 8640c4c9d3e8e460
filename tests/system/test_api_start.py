"""Kills while the process of the operator API starts, and what they leave behind."""

import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.processes import FreshServing, Serving, eventually
from tests.system.test_api_process import FLEET, api_of, is_gone

pytestmark = [pytest.mark.system, pytest.mark.slow]

Begin = Callable[..., Serving]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Return a function that starts services at one address, without waiting.

    They are forks with loaded modules, unless another kind is given.
    """
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    running: list[Serving] = []

    def beginning(kind: type[Serving] = Serving) -> Serving:
        settings = {"store_url": "sqlite:///f.db", "admin_listen": f"127.0.0.1:{port}"}
        running.append(kind(tmp_path, FLEET, **settings))
        return running[-1]

    yield beginning
    for service in running:
        if service.process.poll() is None:
            service.kill()


def test_killed_start_leaves_the_address_free(begin: Begin) -> None:
    """The API's process loads its modules at that time."""
    service = begin(FreshServing)
    api_of(service)
    service.kill()
    begin().wait_ready().kill()


def test_stopped_api_process_ends_with_a_killed_service(begin: Begin) -> None:
    service = begin().wait_ready()
    api = api_of(service)
    os.kill(api, signal.SIGSTOP)
    service.kill()
    eventually(lambda: is_gone(api), bool, what="the end of the stopped process")
    begin().wait_ready()


def test_api_process_killed_during_the_start_is_started_again(begin: Begin) -> None:
    service = begin(FreshServing)
    os.kill(api_of(service), signal.SIGKILL)
    service.wait_ready()
    assert "the process of the operator API ended (signal 9)" in service.log()
    assert service.admin("/v1/operations") == {"operations": [], "next": None}


def test_hang_up_stops_the_service_in_order(begin: Begin) -> None:
    """A terminal that is closed sends the signal twice."""
    service = begin().wait_ready()
    service.process.send_signal(signal.SIGHUP)
    service.process.send_signal(signal.SIGHUP)
    assert service.ended() == 0
    assert "stopping" in service.log()


def test_hang_up_is_ignored_under_nohup(tmp_path: Path) -> None:
    service = Serving(tmp_path, FLEET, ("nohup",)).wait_ready()
    try:
        service.process.send_signal(signal.SIGHUP)
        assert service.admin("/v1/operations") == {"operations": [], "next": None}
        assert service.terminate() == 0
    finally:
        if service.process.poll() is None:
            service.kill()
