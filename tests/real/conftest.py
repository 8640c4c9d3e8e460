"""Two libvirts for the tests of a file, with one VM for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.real_libvirts import RealLibvirts
from tests.support.served_libvirts import World


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealLibvirts]:
    # The path of a socket is short.
    real_libvirts = RealLibvirts(tmp_path_factory.mktemp("lv"))
    yield real_libvirts
    real_libvirts.end()


@pytest.fixture
def libvirts(hosts: RealLibvirts) -> Iterator[RealLibvirts]:
    """Return the hosts with one VM."""
    hosts.start("web_0", "h1")
    yield hosts
    hosts.remove_all()


@pytest.fixture
def world(tmp_path: Path, libvirts: RealLibvirts) -> Iterator[World]:
    world = World(tmp_path, libvirts)
    yield world
    world.service.kill()
