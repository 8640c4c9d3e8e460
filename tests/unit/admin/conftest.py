"""The operator API over a small fleet, with a test client."""

import math
from collections.abc import Iterator

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from forewarn.admin import limits
from forewarn.admin.app import create_app
from tests.unit.admin.gateway import LocalGateway


@pytest.fixture(scope="session")
def served() -> Iterator[tuple[FastAPI, TestClient]]:
    """Return one application for all tests, since its creation takes long."""
    app = create_app(LocalGateway(), tokens=None, version="1.2.3")
    with TestClient(app, base_url="http://127.0.0.1:8200") as client:
        yield app, client


@pytest.fixture(autouse=True)
def each_answer_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Share no slow answer with later requests: on a busy machine, any read can be slow."""
    monkeypatch.setattr(limits, "SHARED_FROM_SECONDS", math.inf)


@pytest.fixture
def gateway() -> LocalGateway:
    return LocalGateway()


@pytest.fixture(autouse=True)
def _uses_are_stored_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no use of a token wait for the pause after another one."""
    monkeypatch.setattr(limits, "USES_PAUSE_SECONDS", 0.0)


@pytest.fixture
def client(gateway: LocalGateway, served: tuple[FastAPI, TestClient]) -> TestClient:
    app, client = served
    app.state.gateway = gateway
    return client
