"""The operator API against requests that schemathesis makes of its description.

Each request is valid or broken in one way. Each answer must be one that the description
names, with its media type and its members, and none may be a fault of the service. The
seed is fixed, and printed with a failure.
"""

import contextlib
import sys
from collections.abc import Callable
from typing import Any

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.testclient import TestClient

from forewarn.admin.app import create_app
from forewarn.admin.tokens import parse_tokens
from tests.support.profiles import amounts
from tests.unit.admin.gateway import LocalGateway
from tests.unit.admin.test_webhooks import Receivers

pytestmark = [pytest.mark.slow, pytest.mark.amounts]

SEED = 20300101

TOKEN = "0123456789abcdef0123456789abcdef"

BEARER = {"Authorization": f"Bearer {TOKEN}"}
"""Without a valid token, every answer would be 401."""

BASE = "http://127.0.0.1:8200"

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]

ENDLESS = "/v1/watch"
"""Paths of streams, which end with their reader."""


@pytest.fixture(scope="module")
def app() -> FastAPI:
    tokens = parse_tokens(f"ops:{TOKEN}\n", file="tokens")
    return create_app(LocalGateway(), tokens=tokens, version="1", receivers=Receivers())


@pytest.fixture(scope="module")
def operations(app: FastAPI) -> list[Any]:
    """Return all described routes, except streams."""
    described = TestClient(app, base_url=BASE).get("/openapi.json").json()
    schema = schemathesis.openapi.from_dict(described)
    schema.app = app
    results: list[Any] = list(schema.get_all_operations())
    all_operations = [result.ok() for result in results]
    return [
        operation
        for operation in all_operations
        if not operation.path.startswith(ENDLESS)
    ]


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_answers_match_the_description(
    app: FastAPI,
    operations: list[Any],
    mode: GenerationMode,
    record_property: Callable[[str, object], None],
) -> None:
    record_property("seed", SEED)
    sys.stdout.write(f"seed: {SEED}\n")
    assert len(operations) > 30
    count = 0
    for operation in operations:
        app.state.gateway = LocalGateway()

        @seed(SEED)
        @settings(
            max_examples=amounts().described_examples,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def ask(case: Any) -> None:
            nonlocal count
            count += 1
            case.call_and_validate(base_url=BASE, headers=BEARER, checks=CHECKS)

        # An operation without parameters and body cannot be broken.
        with contextlib.suppress(Unsatisfiable):
            ask()
    assert count > 100
