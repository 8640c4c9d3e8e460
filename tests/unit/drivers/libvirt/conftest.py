"""The end of the fake libvirts of each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.drivers.libvirt.living import Living


@pytest.fixture(autouse=True)
def ends(tmp_path: Path) -> Iterator[None]:
    """End the threads of the test, before its directory goes."""
    yield
    while Living.made:
        Living.made.pop().end()
