"""The amount of fuzzing, and its seed.

`pytest tests/fuzz --fuzz-requests=1000000` looks far; `--fuzz-seed` looks
elsewhere. A failure prints the case, and `--fuzz-case` plays that one alone.
"""

from typing import Any

import pytest

REQUESTS = 20_000
"""Examples of a usual run: at most half a minute on a slow machine."""

CONNECTIONS = 400
"""Idle ones of a usual run."""

SEED = 1
"""The same each time, so that a failure is a change's own."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("fuzz")
    group.addoption("--fuzz-requests", type=int, default=REQUESTS)
    group.addoption("--fuzz-connections", type=int, default=CONNECTIONS)
    group.addoption("--fuzz-seed", type=int, default=SEED)
    group.addoption("--fuzz-case", default="", help="play this case alone")


# Without a path below this directory on its command line, pytest lacks these options.


def _option(config: pytest.Config, name: str, default: int) -> int:
    value: Any = config.getoption(name, default)
    return int(value)


def pytest_report_header(config: pytest.Config) -> str:
    return f"fuzz seed: {_option(config, '--fuzz-seed', SEED)}"


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Give a far look the time that it takes."""
    usual = (
        _option(config, "--fuzz-requests", REQUESTS) <= REQUESTS
        and _option(config, "--fuzz-connections", CONNECTIONS) <= CONNECTIONS
    )
    for item in items:
        if not usual and "tests/fuzz/" in item.path.as_posix():
            item.add_marker(pytest.mark.timeout(0))


@pytest.fixture(scope="session")
def fuzz_requests(request: pytest.FixtureRequest) -> int:
    return _option(request.config, "--fuzz-requests", REQUESTS)


@pytest.fixture(scope="session")
def fuzz_connections(request: pytest.FixtureRequest) -> int:
    return _option(request.config, "--fuzz-connections", CONNECTIONS)


@pytest.fixture(scope="session")
def fuzz_seed(request: pytest.FixtureRequest) -> int:
    return _option(request.config, "--fuzz-seed", SEED)


@pytest.fixture(scope="session")
def fuzz_case(request: pytest.FixtureRequest) -> str:
    return str(request.config.getoption("--fuzz-case", ""))
