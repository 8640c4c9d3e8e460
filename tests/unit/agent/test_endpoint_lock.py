"""One agent that acts at an endpoint, whatever journals there are."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.agent import endpoint_lock
from forewarn.agent.endpoint_lock import (
    EndpointLock,
    Holder,
    TakenError,
    holder_of,
    name_of,
    place_of,
)
from forewarn.agent.settings import load_settings
from tests.support.agents import free_port

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux has abstract names"
)


@pytest.fixture
def url() -> str:
    """An endpoint that no other test has."""
    return f"http://127.0.0.1:{free_port()}"


@pytest.fixture
def first(url: str) -> Iterator[EndpointLock]:
    place = EndpointLock(url)
    yield place
    place.release()


def test_second_lock_is_refused_until_the_first_is_released(
    first: EndpointLock, url: str
) -> None:
    # However often it tries, and however the endpoint is written.
    for _ in range(3 * endpoint_lock.BACKLOG):
        with pytest.raises(
            TakenError, match=rf"process {os.getpid()}\) .* from {url}/$"
        ):
            EndpointLock(f"{url}/")
        first.tick()
    first.release()
    EndpointLock(url).release()
    assert holder_of(url) is None


def test_lock_ends_with_its_process_and_not_with_its_children(url: str) -> None:
    """A handler that outlives a killed agent does not prevent a start."""
    holding = (
        "import subprocess, sys, time\n"
        "from forewarn.agent.endpoint_lock import EndpointLock\n"
        f"place = EndpointLock({url!r})\n"
        "words = [sys.executable, '-c', 'import sys; sys.stdin.read()']\n"
        "child = subprocess.Popen(words, close_fds=False, stdin=subprocess.PIPE)\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", holding], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        assert holder_of(url) == Holder(process=process.pid, user=os.geteuid())
        child_is_there = os.pidfd_open(child)
        process.kill()
        process.wait()
        try:
            EndpointLock(url).release()
        finally:
            signal.pidfd_send_signal(child_is_there, 0)
            os.close(child_is_there)


def test_endpoint_lock_of_other_user_logs_warning_and_agent_starts(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Any user of the machine can take any name: not each may stop root's agent."""
    first = EndpointLock(url)
    # As it is to an agent that is of another user, and meets none of root's.
    theirs = Holder(process=7, user=os.geteuid() + 1)
    assert not theirs.is_believed
    monkeypatch.setattr(endpoint_lock, "holder_of", lambda _: theirs)
    EndpointLock(url).release()
    assert "process 7 of user" in caplog.text
    # And one that does not say who it is.
    monkeypatch.setattr(endpoint_lock, "holder_of", lambda _: None)
    monkeypatch.setattr(endpoint_lock, "PAUSE_SECONDS", 0)
    EndpointLock(url).release()
    assert "does not answer" in caplog.text
    first.release()


def test_equivalent_endpoint_urls_have_the_same_lock_name() -> None:
    assert name_of("auto") == b"\0forewarn-agent http://169.254.169.254"
    for url in ("http://169.254.169.254", "HTTP://169.254.169.254:80/"):
        assert name_of(url) == name_of("auto")
    assert name_of("http://192.0.2.1/a") != name_of("http://192.0.2.1/b")
    long = f"http://192.0.2.1/{'x' * 200}"
    assert len(name_of(long)) == 1 + endpoint_lock.NAME_BYTES_MAX
    assert name_of(long) != name_of(f"{long}y")


def test_active_agent_takes_the_lock_and_an_observer_does_not(
    tmp_path: Path, url: str
) -> None:
    def place(**flags: str) -> EndpointLock | None:
        return place_of(load_settings(environ={}, flags={"endpoint": url, **flags}))

    first = place()
    assert first is not None
    assert place(observe="true") is None
    assert place(dry_run="true") is None
    first.release()
