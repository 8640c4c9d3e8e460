"""Options of these tests, such as the number of kills and the seed.

`pytest tests/system/test_kills.py --kills=100` searches longer; `--kill-seed` changes
the random seed. A failure prints the seed and the round.

`--agent-python=oldest` runs the agents of `place` on the oldest supported Python;
without it only tests that are marked `pythons` do so, and those run on both.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.sim import fleets
from forewarn.sim.loop import LoopThread
from tests.support import pythons
from tests.support.agents import Ground, ground
from tests.support.profiles import FAR, USUAL, amounts
from tests.support.pythons import Python

SEED = 1
"""The same for each run; threads and disks still vary the runs."""

USUAL_SECONDS = 300
"""Seconds of a usual run on a busy machine; an idle one takes 18."""

ROLLOUT_HOSTS = 40
"""Hosts of one scope, and as many unrelated ones; `--rollout-hosts=1000` is a large
fleet, and takes minutes."""

KILLED = "killed"
"""The property with the results of the test."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kills")
    group.addoption("--kills", type=int, default=None)
    group.addoption("--kill-seed", type=int, default=SEED)
    group = parser.getgroup("pythons")
    group.addoption("--agent-python", choices=("this", "oldest"))
    group = parser.getgroup("soak")
    group.addoption("--soak-seconds", type=int, default=None)
    group = parser.getgroup("rollouts")
    group.addoption("--rollout-hosts", type=int, default=ROLLOUT_HOSTS)


# pytest does not know these options if no path below this directory is given.


def _option(config: pytest.Config, name: str, default: int) -> int:
    value: Any = config.getoption(name, None)
    return default if value is None else int(value)


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Extend the timeout of long runs."""
    far = _option(config, "--kills", amounts().kills) > FAR.kills
    kill_count = _option(config, "--kills", amounts().replica_kills)
    far_replicas = kill_count > USUAL.replica_kills
    many = _option(config, "--rollout-hosts", ROLLOUT_HOSTS) > ROLLOUT_HOSTS
    for item in items:
        if many and item.path.as_posix().endswith("tests/system/test_rollouts.py"):
            item.add_marker(pytest.mark.timeout(0))
        if item.path.as_posix().endswith("tests/system/test_kills.py"):
            item.add_marker(pytest.mark.timeout(0 if far else USUAL_SECONDS))
        if item.path.as_posix().endswith("tests/system/test_replica_kills.py"):
            item.add_marker(pytest.mark.timeout(0 if far_replicas else USUAL_SECONDS))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    texts = [
        str(text)
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
        for name, text in report.user_properties
        if name == KILLED
    ]
    if texts:
        terminalreporter.section("what was killed")
        terminalreporter.write_line("\n".join(texts))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run agents on the selected Python, or on both if the test is marked."""
    if "python" not in metafunc.fixturenames:
        return
    chosen: Any = metafunc.config.getoption("--agent-python", None)
    is_marked = metafunc.definition.get_closest_marker("pythons") is not None
    names = [chosen] if chosen else ["this", "oldest"] if is_marked else []
    if names:
        metafunc.parametrize(
            "python", pythons.choices(names), indirect=True, scope="session"
        )


@pytest.fixture(scope="session")
def python(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Python:
    """Return the Python that agents run on."""
    if getattr(request, "param", "this") == "this":
        return pythons.THIS
    return pythons.oldest(tmp_path_factory.mktemp("oldest"))


@pytest.fixture
def rollout_hosts(request: pytest.FixtureRequest) -> int:
    """Return the number of hosts of a rollout."""
    return _option(request.config, "--rollout-hosts", ROLLOUT_HOSTS)


@pytest.fixture(scope="session")
def kills(request: pytest.FixtureRequest) -> int:
    return _option(request.config, "--kills", amounts().kills)


@pytest.fixture(scope="session")
def replica_kills(request: pytest.FixtureRequest) -> int:
    return _option(request.config, "--kills", amounts().replica_kills)


@pytest.fixture(scope="session")
def soak_seconds(request: pytest.FixtureRequest) -> int:
    return _option(request.config, "--soak-seconds", amounts().soak_seconds)


@pytest.fixture(scope="session")
def kill_seed(request: pytest.FixtureRequest) -> int:
    return _option(request.config, "--kill-seed", SEED)


@pytest.fixture(scope="module")
def loop() -> Iterator[LoopThread]:
    """Run the simulators of one module."""
    loop = LoopThread()
    yield loop
    loop.close()


@pytest.fixture
def place(loop: LoopThread, python: Python, tmp_path: Path) -> Iterator[Ground]:
    """Run a simulator with one VM for an agent."""
    with ground(
        loop, tmp_path, fleet=fleets.fleet_text(1), python=python
    ) as new_ground:
        yield new_ground


@pytest.fixture
def still_place(loop: LoopThread, python: Python, tmp_path: Path) -> Iterator[Ground]:
    """Run a simulator with one VM whose events advance only when the test moves them.

    At the usual speed an approved event ends within half a second, which is less than
    a busy machine may take between two lines of a test.
    """
    fleet = fleets.fleet_text(1)
    with ground(loop, tmp_path, fleet=fleet, speed=1, python=python) as new_ground:
        yield new_ground
