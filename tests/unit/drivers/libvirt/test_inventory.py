"""The inventory of libvirts whose VMs move while they are read."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forewarn.drivers.libvirt.worker.hosts import NO_DOMAIN
from forewarn.drivers.libvirt.worker.inventory import discover
from forewarn.drivers.libvirt.worker.orders import UnreachableError
from tests.support.fake_libvirts import FakeLibvirts

WAIT_SECONDS = 30.0
"""Maximum seconds until the other host was read, on a busy machine."""


class Interleaved:
    """The library, whose first connection to `late` waits until `early` was read."""

    def __init__(
        self, fake: FakeLibvirts, *, early: str, late: str, then: Callable[[], object]
    ) -> None:
        self.libvirtError = fake.api.libvirtError
        self._fake = fake
        self._early, self._late = (
            fake.uri.replace("{host}", name) for name in (early, late)
        )
        self._then = then
        self._is_read = threading.Event()
        self._has_moved = False

    def open(self, uri: str) -> Any:
        conn = self._fake.api.open(uri)
        if uri == self._early and not self._has_moved:
            close = conn.close

            def closed() -> None:
                close()
                self._is_read.set()

            conn.close = closed
        if uri == self._late and not self._has_moved:
            assert self._is_read.wait(WAIT_SECONDS)
            self._then()
            self._has_moved = True
        return conn


@pytest.fixture
def libvirts(tmp_path: Path) -> FakeLibvirts:
    """Return two hosts, with a VM on the first."""
    hosts = FakeLibvirts(tmp_path, "h1", "h2")
    hosts.start("web_0", "h1")
    return hosts


def places(api: Any, fake: FakeLibvirts) -> dict[str, str]:
    """Return the host of each VM in the inventory."""
    uris = [fake.uri.replace("{host}", name) for name in ("h1", "h2")]
    inventory = discover(api, uris, seconds=6 * WAIT_SECONDS)
    return {vm["name"]: vm["host"] for vm in inventory["vms"]}


def move(fake: FakeLibvirts, vm: str, host: str, to: str, *, keep: bool) -> None:
    """Move a VM at once; `keep` its old definition."""
    fake.start(vm, to)
    domain = fake.domain(vm, host)
    domain.destroy()
    if not keep:
        domain.undefineFlags(0)


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("early", ["h1", "h2"])
def test_vm_that_moves_while_the_hosts_are_read_is_at_its_destination(
    libvirts: FakeLibvirts, early: str, *, keep: bool
) -> None:
    if keep:
        libvirts.host("h2").defineXML("<domain><name>web_0</name></domain>")
    api = Interleaved(
        libvirts,
        early=early,
        late="h2" if early == "h1" else "h1",
        then=lambda: move(libvirts, "web_0", "h1", "h2", keep=keep),
    )
    assert places(api, libvirts) == {"web_0": "h2"}


def test_domain_that_leaves_while_its_host_is_read_is_no_failure(
    libvirts: FakeLibvirts, monkeypatch: pytest.MonkeyPatch
) -> None:
    libvirts.start("web_1", "h2")
    fake = libvirts.api
    is_active = fake.virDomain.isActive

    def leaves(domain: Any) -> int:
        if domain.name() == "web_0":
            raise fake.libvirtError("Domain not found", NO_DOMAIN)
        return int(is_active(domain))

    monkeypatch.setattr(fake.virDomain, "isActive", leaves)
    assert places(fake, libvirts) == {"web_1": "h2"}


def test_host_that_is_away_does_not_stop_the_inventory_of_the_others(
    libvirts: FakeLibvirts,
) -> None:
    libvirts.fault("h2", "down")
    away = libvirts.uri.replace("{host}", "h2")
    inventory = discover(
        libvirts.api, [libvirts.uri.replace("{host}", "h1"), away], seconds=60.0
    )
    assert [host["name"] for host in inventory["hosts"]] == ["h1"]
    assert [vm["name"] for vm in inventory["vms"]] == ["web_0"]
    [reason] = inventory["unknown_hosts"]
    assert reason == f"{away}: unable to connect to h2"
    libvirts.fault("h1", "down")
    with pytest.raises(UnreachableError, match="unable to connect to h1"):
        places(libvirts.api, libvirts)


def test_host_that_leaves_while_the_others_are_read_is_not_known(
    libvirts: FakeLibvirts,
) -> None:
    libvirts.start("web_1", "h2")
    api = Interleaved(
        libvirts, early="h2", late="h1", then=lambda: libvirts.fault("h2", "down")
    )
    assert places(api, libvirts) == {"web_0": "h1"}
