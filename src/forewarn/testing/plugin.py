"""The pytest plugin: the fixture `scheduled_events`, and its mark.

pytest finds it by itself, in every run of everybody who has forewarn installed. So
it imports nothing of forewarn, and hooks into nothing, until a test asks for the
fixture.
"""

import inspect
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from forewarn.testing.kit.world import ScheduledEvents

MARK = "scheduled_events"
REPORTER = "forewarn-reporter"

_HELP = (
    f"{MARK}(vms=3, together=False, fleet='', clock='machine', speed=None, "
    "settings={}, profile='lenient', enabled=True, seed=None, faults='', "
    "scenario=''): "
    "the world that the fixture scheduled_events gives (forewarn)"
)


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line("markers", _HELP)


@pytest.fixture(scope="session")
def _forewarn_loop() -> Iterator[None]:
    """Keep the loop thread of this process from test to test."""
    from forewarn.testing.kit.shared_loop import SHARED_LOOP  # noqa: PLC0415

    SHARED_LOOP.lease()
    yield
    SHARED_LOOP.give_back()


@pytest.fixture
def scheduled_events(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    _forewarn_loop: None,
) -> "Iterator[ScheduledEvents]":
    """Return a world of VMs that are told of maintenance, for this test alone.

    `FOREWARN_ENDPOINT` names the address of its first VM meanwhile. The mark
    `scheduled_events` says what the world is like.
    """
    config = request.config
    if not config.pluginmanager.has_plugin(REPORTER):
        config.pluginmanager.register(_Reporter(), REPORTER)
    world = _begun(request.node)
    try:
        request.node.stash[_WORLD] = world
        for name, value in world.environment().items():
            monkeypatch.setenv(name, value)
        yield world
        del request.node.stash[_WORLD]
        _judge(world)
    finally:
        world.close()


def _begun(node: pytest.Item) -> "ScheduledEvents":
    """Begin the world of a test; fail in a sentence, since the fault is in its mark."""
    from forewarn.protocol.errors import ForewarnError  # noqa: PLC0415
    from forewarn.testing.kit.world import ScheduledEvents  # noqa: PLC0415

    wanted = _wanted(node)
    known = inspect.signature(ScheduledEvents).parameters
    strange = [name for name in wanted if name not in known]
    if strange:
        _fail(f"the mark {MARK} has no {strange[0]!r}; it has {', '.join(known)}")
    try:
        return ScheduledEvents(**wanted)
    except ForewarnError as error:
        sentence = f"{error}\n  hint: {error.hint}" if error.hint else str(error)
    except (OSError, UnicodeDecodeError) as error:
        sentence = f"a file of the mark {MARK} cannot be read: {error}"
    return _fail(sentence)


def _judge(world: "ScheduledEvents") -> None:
    """Fail for what the world itself expects, unless the test has closed it."""
    from forewarn.testing.kit.telling import NotSeenError  # noqa: PLC0415

    if not world.is_open:
        return
    try:
        world.judge()
    except NotSeenError as error:
        unseen = str(error)
    else:
        return
    _fail(unseen)


def _fail(sentence: str) -> NoReturn:
    """Fail without lines of ours, which would tell a tester nothing."""
    pytest.fail(sentence, pytrace=False)


_WORLD = pytest.StashKey["ScheduledEvents"]()


def _wanted(node: pytest.Item) -> dict[str, Any]:
    """Return what the marks say; a test's own go before those of its module."""
    wanted: dict[str, Any] = {}
    for mark in node.iter_markers(MARK):
        if mark.args:
            _fail(f"the mark {MARK} takes names only, such as vms=5")
        wanted = {**mark.kwargs, **wanted}
    return wanted


class _Reporter:
    """Adds to the report of a failed test what had happened in its world."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Add the story of the world."""
        report = yield
        world = item.stash.get(_WORLD, None)
        # An expectation of ours that was not met tells it by itself.
        is_told = call.excinfo is not None and call.excinfo.typename == "NotSeenError"
        if world is None or not world.is_open or is_told:
            return report
        if call.when == "call" and report.failed:
            report.sections.append(("Scheduled Events", world.story()))
        return report
