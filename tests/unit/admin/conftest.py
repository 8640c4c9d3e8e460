"""The operator API over a small fleet, asked as a client asks it."""

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from forewarn.admin.app import create_app
from tests.unit.admin.desk import LocalDesk


@pytest.fixture
def desk() -> LocalDesk:
    return LocalDesk()


@pytest.fixture
def client(desk: LocalDesk) -> Iterator[TestClient]:
    app = create_app(desk, tokens=None, version="1.2.3")
    with TestClient(app, base_url="http://127.0.0.1:8200") as client:
        yield client
