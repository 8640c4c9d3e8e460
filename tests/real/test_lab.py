"""The shortest part of `make lab`: real guests and relays on three hosts, with libvirt too."""

import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from examples.demo_parts.timeline import Timeline
from examples.lab import bare, domains
from examples.lab.__main__ import AGENT, Lab, lose

from tests.support import real_libvirts
from tests.support.guest_world import lacking
from tests.support.unpacked import TOOLS

WHY_NOT = lacking() or bare.lacking(TOOLS)
WHY_NO_LIBVIRT = real_libvirts.why_not()

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.long,
    # On a busy machine, each boot without hardware virtualization takes a minute.
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "it is all here"),
]

PLACES = {"cart_0": "h1", "cart_1": "h2"}

MACHINES = [
    Path(parent, "libvirt") for parent in ("/etc", "/run", "/var/lib", "/var/cache")
]
"""Directories of the machine's own libvirt."""


@pytest.fixture
def places() -> Mapping[str, str]:
    """Return the guests and their first hosts; a test can have others."""
    return PLACES


@pytest.fixture(
    params=[
        pytest.param(False, id="bare"),
        pytest.param(
            True,
            id="libvirt",
            marks=pytest.mark.skipif(bool(WHY_NO_LIBVIRT), reason=WHY_NO_LIBVIRT),
        ),
    ]
)
def lab(request: pytest.FixtureRequest, places: Mapping[str, str]) -> Iterator[Lab]:
    # The path of a socket is short.
    directory = Path(tempfile.mkdtemp(prefix="lab"))
    had = [path for path in MACHINES if path.exists()]
    new_lab = Lab(directory, Timeline(), has_libvirt=request.param, places=places)
    try:
        new_lab.begin()
        new_lab.begin_rest()
        yield new_lab
    finally:
        new_lab.end()
    assert not directory.exists()
    assert [path for path in MACHINES if path.exists()] == had
    assert not list(Path("/run/netns").glob(f"{new_lab.ground.prefix}-*"))


def test_guests_move_between_hosts_and_survive_their_restart_and_loss(lab: Lab) -> None:
    # Nothing else answers at 169.254.169.254.
    assert all(lab.service.has_relay(host) for host in lab.ground.hosts)
    lab.maintain("h2", "live-migrate")
    assert not lab.service.vms_on("h2")
    lab.maintain("h1", "reboot", "--work", "restart")
    host = lab.service.host_of("cart_1")
    lose(lab, lab.service.vms_on(host), host)
    assert lab.timeline.all_seen


@pytest.mark.parametrize("lab", [False], indirect=True, ids=["bare"])
@pytest.mark.parametrize("places", [{AGENT: "h1"}], ids=["agent"])
def test_agent_in_a_guest_prepares_approves_and_recovers(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.maintain("h1", "freeze")
    lab.report_first_event()
    assert re.search(
        r" lab +a guest saw the first event \d+ s after the start of the lab, "
        r"\d+ s after `make lab`; (its guests were built before \(wanted: 30 s\)"
        r"|it built its guests \(wanted: 180 s the first time\))\n",
        capsys.readouterr().out,
    )
    lab.expect("it has prepared", lambda: lab.has(AGENT, "agent: out of the pool"))
    lab.expect("it has recovered", lambda: lab.has(AGENT, "agent: back in the pool"))
    assert lab.timeline.all_seen
    lines = lab.consoles.seen[AGENT]
    steps = ["out of the pool", "approved", "started", "back in the pool"]
    numbers = [lines.index(f"agent: {step}") for step in steps]
    assert numbers == sorted(numbers)
    assert lab.service.approvers() == {AGENT}


def test_missing_libvirt_is_named_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_words, **_more: None)
    why = domains.lacking(tmp_path)
    assert why.startswith("needs libvirtd (Debian: libvirt-daemon ")
    assert why.endswith("sh tests/real/unpack.sh lab-libvirt")
    assert "\n" not in why
