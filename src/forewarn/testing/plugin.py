"""The pytest plugin: the fixture `scheduled_events` and its mark.

pytest loads it in every run if forewarn is installed. So it imports nothing of forewarn
and only looks for its mark until a test requests the fixture.
"""

import inspect
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, NoReturn, cast

import pytest

if TYPE_CHECKING:
    from forewarn.testing.kit.world import ScheduledEvents

MARK = "scheduled_events"
REPORTER = "forewarn-reporter"
GUARD = "forewarn-guard"

_HELP = (
    f"{MARK}(vms=3, *, together=False, fleet='', clock='machine', speed=None, "
    "settings={}, profile='lenient', but=(), enabled=True, seed=None, faults='', "
    "scenario=None, expect=None, replay=None, names=()): "
    "the world that the fixture scheduled_events gives (forewarn)"
)


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark."""
    config.addinivalue_line("markers", _HELP)


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Watch tests that have the mark but do not request the fixture."""
    manager = config.pluginmanager
    if not manager.has_plugin(GUARD) and any(map(_is_idle, items)):
        manager.register(_Guard(), GUARD)


def _is_idle(item: pytest.Item) -> bool:
    """Return whether a test has the mark without requesting the fixture."""
    if item.get_closest_marker(MARK) is None:
        return False
    return MARK not in getattr(item, "fixturenames", ())


@pytest.fixture(scope="session")
def _forewarn_loop() -> Iterator[None]:
    """Keep the loop thread of this process from test to test."""
    from forewarn.testing.kit.ending import SHARED_LOOP  # noqa: PLC0415

    SHARED_LOOP.lease()
    yield
    SHARED_LOOP.give_back()


@pytest.fixture
def scheduled_events(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    _forewarn_loop: None,
) -> "Iterator[ScheduledEvents]":
    """Return a world of simulated VMs, for this test only.

    During the test, `FOREWARN_ENDPOINT` is the address of its first VM. The mark
    `scheduled_events` configures the world. A dictionary with the same names does that
    too, with `parametrize(..., indirect=True)`.
    """
    config = request.config
    if not config.pluginmanager.has_plugin(REPORTER):
        config.pluginmanager.register(_Reporter(), REPORTER)
    stash = request.node.stash
    stash[_HAS_PASSED] = False
    world = _begun(request)
    try:
        stash[_WORLD] = world
        for name, value in world.environment().items():
            monkeypatch.setenv(name, value)
        yield world
        del stash[_WORLD]
        # A failed test reports its own failure only: more would hide the cause.
        _close(world, judge=stash[_HAS_PASSED])
    finally:
        world.close(judge=False)


def _begun(request: pytest.FixtureRequest) -> "ScheduledEvents":
    """Begin the world of a test; an error is in the mark, so fail without traceback."""
    from forewarn.protocol.errors import ForewarnError  # noqa: PLC0415
    from forewarn.testing.kit.world import ScheduledEvents  # noqa: PLC0415

    wanted = _wanted(request)
    _check_names(wanted)
    try:
        return ScheduledEvents(**wanted)
    except ForewarnError as error:
        sentence = str(error)
    except OSError as error:
        notes = getattr(error, "__notes__", [])
        sentence = f"cannot read a file of the mark {MARK}: {error}"
        sentence = "\n".join([sentence, *notes])
    return _fail(sentence)


def _check_names(wanted: dict[str, Any]) -> None:
    """Fail if worlds do not have an argument of this name."""
    from forewarn.problems import did_you_mean  # noqa: PLC0415
    from forewarn.testing.kit.world import ScheduledEvents  # noqa: PLC0415

    known = inspect.signature(ScheduledEvents).parameters
    strange = [name for name in wanted if name not in known]
    if strange:
        meant = did_you_mean(strange[0], known)
        there = ", ".join(known)
        _fail(f"the mark {MARK} has no {strange[0]!r}{meant}; it has {there}")


def _close(world: "ScheduledEvents", *, judge: bool) -> None:
    """Close the world and fail for unmet expectations; it may be closed already."""
    from forewarn.testing.kit.failure_report import NotSeenError  # noqa: PLC0415

    try:
        world.close(judge=judge)
    except NotSeenError as error:
        unseen = str(error)
    else:
        return
    _fail(unseen)


def _fail(sentence: str) -> NoReturn:
    """Fail without a traceback of forewarn's code, which would not help."""
    pytest.fail(sentence, pytrace=False)


_WORLD = pytest.StashKey["ScheduledEvents"]()
_HAS_PASSED = pytest.StashKey[bool]()


def _wanted(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return the configuration from the parameter and the marks.

    A parameter overrides the test's mark, which overrides those of its module.
    """
    param: Any = getattr(request, "param", {})
    if not isinstance(param, dict):
        _fail(f"the fixture {MARK} takes a dictionary such as {{'vms': 5}}: {param!r}")
    return {**_marked(request.node), **cast("dict[str, Any]", param)}


def _marked(item: pytest.Item) -> dict[str, Any]:
    wanted: dict[str, Any] = {}
    for mark in item.iter_markers(MARK):
        arguments = dict(mark.kwargs)
        if len(mark.args) > 1 or (mark.args and "vms" in arguments):
            _fail(f"the mark {MARK} takes names such as vms=5; only vms needs no name")
        if mark.args:
            arguments["vms"] = mark.args[0]
        wanted = {**arguments, **wanted}
    return wanted


class _Reporter:
    """Adds the events and requests of a failed test's world to its report.

    It is registered when the first test of a run requests a world.
    """

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Add the events and requests, and store whether the test has passed."""
        if call.when == "call":
            item.stash[_HAS_PASSED] = call.excinfo is None
        report = yield
        world = item.stash.get(_WORLD, None)
        # The message of an unmet expectation already has these lines.
        is_told = call.excinfo is not None and call.excinfo.typename == "NotSeenError"
        if world is None or not world.is_open or is_told:
            return report
        if call.when == "call" and report.failed:
            report.sections.append(("Scheduled Events", world.story()))
        return report


class _Guard:
    """Fails tests whose mark has no effect.

    It is registered if a test of the run has the mark without requesting the fixture.
    """

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Fail for an invalid mark, even if it is on a class or module."""
        if _is_idle(item):
            _check_names(_marked(item))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        """Fail a test that has its own mark but passed without a world.

        A mark on a class or module applies to those of its tests that use a world. A
        test can also request the fixture while it runs.
        """
        yield
        is_own = any(mark.name == MARK for mark in item.own_markers)
        if is_own and _is_idle(item) and _HAS_PASSED not in item.stash:
            _fail(
                f"the mark {MARK} has no effect without the fixture {MARK}\n"
                f"hint: def {getattr(item, 'originalname', item.name)}({MARK})"
            )
