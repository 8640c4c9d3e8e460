"""The end of the fake libvirts of each test."""

from collections.abc import Iterator

import pytest

from tests.unit.drivers.libvirt.living import Living


@pytest.fixture(autouse=True)
def ends() -> Iterator[None]:
    """End the threads of the test."""
    yield
    while Living.made:
        Living.made.pop().end()
