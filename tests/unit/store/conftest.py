"""A store's file for the tests of `store check`."""

from pathlib import Path

import pytest

from tests.unit.store.written import write_a_life


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store in which something of everything is under way."""
    file = tmp_path_factory.mktemp("store") / "forewarn.db"
    write_a_life(file)
    return file
