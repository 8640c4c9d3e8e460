"""Tests of all public methods of the kit with wrong values and names."""

import asyncio
import contextlib
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.protocol.errors import ForewarnError, RefusedError
from forewarn.sim.deviations import RULES
from forewarn.testing import Event, NotSeenError, ScheduledEvents, Vm
from forewarn.testing.kit.event import AioEvent
from forewarn.testing.kit.faults import Faults
from forewarn.testing.kit.vm import AioVm
from forewarn.testing.kit.world import AioScheduledEvents

FRONTS = (ScheduledEvents, Vm, Event, Faults, AioScheduledEvents, AioVm, AioEvent)

GOOD: dict[str, Any] = {
    "name": "web_0",
    "fleet": '[[host]]\nname = "h1"\n',
    "by": "1s",
    "event_id": "X",
    "hosts": "h0",
    "vms": "web_0",
    "targets": "web_0",
    "verb": "reboot",
    "impact": "freeze",
    "type": "Freeze",
    "line": "500",
    "status": "Scheduled",
    "steps": ["500"],
    "file": "nowhere.toml",
}
"""A valid value for each required parameter."""


class Strange:
    """An invalid value that even fails in `repr()`."""

    def __repr__(self) -> str:
        raise ZeroDivisionError

    def __str__(self) -> str:
        raise ZeroDivisionError


WRONG: tuple[Any, ...] = (
    *(None, True, 0, 1, -1, 7, 2**70, 0.5, 1e999, float("nan"), b"web_0"),
    *("", "web_0", "x", "15m", "-3s", "Freeze", "freeze", "Started", "\ud800", "\0"),
    *([], ["web_0"], [1], [None], {}, {"a": "b"}, {"a": 1}, {1}, object(), Strange()),
    *(Path("nowhere.toml"), Path("\0"), "nowhere.toml", Exception, len),
)


def any_value(value: object) -> Any:
    """Return a value without its type, so that type checkers accept the call."""
    return value


def calls_of(kind: type) -> Iterator[str]:
    for name, member in inspect.getmembers(kind):
        is_shown = name == "__init__" and kind is ScheduledEvents
        if inspect.isfunction(member) and (is_shown or not name.startswith("_")):
            yield name


CALLS = [(kind, name) for kind in FRONTS for name in calls_of(kind)]

PARAMETERS = [
    (kind, name, parameter)
    for kind, name in CALLS
    for parameter in list(inspect.signature(getattr(kind, name)).parameters)[1:]
]


@pytest.fixture(scope="module")
def fronts() -> Iterator[dict[type, Any]]:
    with ScheduledEvents(clock="virtual") as world:
        vm = world.vm("web_0")
        event = vm.reboot()
        handles = (world, vm, event, world.faults, world.aio, vm.aio, event.aio)
        yield dict(zip(FRONTS, handles, strict=True))


def begin(*args: Any, **kwargs: Any) -> None:
    ScheduledEvents(*args, **{"clock": "virtual", **kwargs}).close()


def called(front: Any, name: str) -> Callable[..., object]:
    """Return a method of the kit as a function that does not wait."""
    if name == "__init__":
        return begin
    function: Callable[..., Any] = getattr(front, name)

    def call(*args: Any, **kwargs: Any) -> object:
        if inspect.iscoroutinefunction(function):
            return asyncio.run(function(*args, **kwargs))
        return function(*args, **kwargs)

    return call


def given(kind: type, name: str, parameter: str, value: object) -> Any:
    """Return arguments that are valid except for one value."""
    args: list[object] = []
    kwargs: dict[str, object] = {}
    for parameter_ in list(inspect.signature(getattr(kind, name)).parameters.values())[
        1:
    ]:
        is_needed = parameter_.default is parameter_.empty
        if parameter_.name in {"timeout", "during"} and parameter_.name != parameter:
            kwargs[parameter_.name] = 0
        elif parameter_.name == parameter or is_needed:
            good = GOOD.get(parameter_.name, parameter_.default)
            if kind is Event and parameter_.name == "by":
                good = "web_0"
            chosen = value if parameter_.name == parameter else good
            if parameter_.kind is parameter_.VAR_POSITIONAL:
                args.append(chosen)
            else:
                kwargs[parameter_.name] = chosen
    return args, kwargs


def test_test_data_covers_every_call() -> None:
    assert len(CALLS) > 60
    assert {name for kind, name, _ in PARAMETERS if kind is Faults} == {
        *("set", "play", "load", "clear", "counts")
    }


@pytest.mark.parametrize(("kind", "name", "parameter"), PARAMETERS)
def test_wrong_value_is_reported_with_its_name(
    fronts: dict[type, Any], kind: type, name: str, parameter: str
) -> None:
    call = called(fronts[kind], name)
    for value in (object(), Strange(), b"web_0", [None], {1: 2}):
        args, kwargs = given(kind, name, parameter, value)
        with pytest.raises(RefusedError) as caught:
            call(*args, **kwargs)
        assert caught.value.message.startswith(f"{parameter} must be ")
        assert ", not " in caught.value.message


@pytest.mark.parametrize(("kind", "name", "parameter"), PARAMETERS)
def test_wrong_value_never_raises_a_python_error(
    fronts: dict[type, Any], kind: type, name: str, parameter: str
) -> None:
    call = called(fronts[kind], name)
    waits = parameter in {"timeout", "during"}
    for value in WRONG:
        if waits and value in (1, 7, 0.5, "15m"):
            continue
        if name == "close" and isinstance(value, bool):
            # A valid value would close the world that all these tests share.
            continue
        args, kwargs = given(kind, name, parameter, value)
        with contextlib.suppress(ForewarnError, OSError):
            call(*args, **kwargs)


@pytest.mark.parametrize(("kind", "name"), CALLS)
def test_call_with_unknown_argument_shows_its_signature(
    fronts: dict[type, Any], kind: type, name: str
) -> None:
    call = called(fronts[kind], name)
    shown = kind.__name__ if name == "__init__" else rf"{kind.__name__}\.\w+"
    with pytest.raises(RefusedError, match=rf'^{shown} has no "nonsense"') as caught:
        call(nonsense=1)
    assert re.search(rf"\nhint: Use {shown}\(.*\)\.$", str(caught.value))
    parameters = inspect.signature(getattr(kind, name)).parameters.values()
    if not any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        with pytest.raises(RefusedError, match=r"takes at most .*, not 9\n"):
            call(*range(9))


@pytest.mark.parametrize(
    "call",
    [
        lambda w: w.vm("web_9"),
        lambda w: w.remove_vm("web_9"),
        lambda w: w.preempt("web_0", ["web_9"]),
        lambda w: w.terminate("web_9"),
        lambda w: w.inject("web_9", type="Freeze"),
        lambda w: w.withhold("web_9"),
        lambda w: w.release("web_9"),
        lambda w: w.faults.set("500", vm="web_9"),
        lambda w: w.faults.clear("web_9"),
        lambda w: w.faults.counts("web_9"),
        lambda w: w.events[0].approve("web_9"),
        lambda w: w.events[0].assert_approved("web_9"),
    ],
)
def test_unknown_vm_is_reported_with_known_names(
    call: Callable[[ScheduledEvents], object],
) -> None:
    with ScheduledEvents(clock="virtual") as world:
        world.vm("web_1").reboot()
        with pytest.raises(RefusedError) as caught:
            call(world)
    assert caught.value.message.startswith('there is no VM "web_9" (did you mean "web_')
    assert caught.value.message.endswith("; known: web_0, web_1, web_2")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda w: w.maintain("h9", impact="freeze"),
            'there is no host "h9"; known: h0, h1, h2, spare',
        ),
        (
            lambda w: w.add_vm("late", host="h9"),
            'there is no host "h9"; known: h0, h1, h2, spare',
        ),
        (
            lambda w: w.fail("h9"),
            (
                'there is no host or VM "h9"; '
                "known: h0, h1, h2, spare, web_0, web_1, web_2"
            ),
        ),
        (lambda w: w.restore("h9"), 'there is no host or VM "h9"'),
        (
            lambda w: w.vm("web_0").event("Sleep"),
            (
                'there is no event type "Sleep"; '
                "known: Freeze, Reboot, Redeploy, Preempt, Terminate"
            ),
        ),
        (
            lambda w: w.vm("web_0").event("Freeze", source="Me"),
            'there is no source "Me"; known: Platform, User',
        ),
        (
            lambda w: w.vm("web_0").maintain("live_migrate"),
            (
                'impact must be "freeze", "live-migrate", "reboot" or "redeploy", '
                "not 'live_migrate' (did you mean \"live-migrate\"?)"
            ),
        ),
        (
            lambda w: w.events[0].assert_status("started"),
            (
                'status must be "Scheduled", "Started", "Removed" or "Cancelled", '
                "not 'started' (did you mean \"Started\"?)"
            ),
        ),
        (lambda w: w.event("X"), 'there is no event "X"; known: '),
        (lambda w: w.run_scenario("user-rebot"), '(did you mean "user-reboot"?)'),
        (
            lambda w: w.assert_no_deviations(but="body "),
            'there is no rule "body " (did you mean "body"?); known: http, forwarded',
        ),
        (lambda w: w.assert_no_deviations(but=["no"]), 'there is no rule "no"'),
        (
            lambda _: ScheduledEvents(settings={"timing.speed": "60"}),
            "a world does not use the setting timing.speed\nhint: Use the argument",
        ),
        (
            lambda _: ScheduledEvents(settings={"store.url": "memory://"}),
            "the setting store.url has no effect in a world; settings with an effect: ",
        ),
        (
            lambda _: ScheduledEvents(settings={"timing.recovry": "1m"}),
            'there is no such setting (did you mean "timing.recovery"?)',
        ),
        (
            lambda _: ScheduledEvents(but="too-often"),
            "but has no effect without the profile strict\nhint: Use profile='strict'.",
        ),
        (
            lambda _: ScheduledEvents(profile="strict", but="often"),
            'there is no rule "often" (did you mean "too-often"?)',
        ),
        (
            lambda _: ScheduledEvents(fleet="fleet.toml"),
            (
                '"fleet.toml" is the name of a file, not a fleet file\'s text\n'
                "hint: Use pathlib.Path('fleet.toml')."
            ),
        ),
        (
            lambda w: w.apply_fleet("my/fleet.toml"),
            "hint: Use pathlib.Path('my/fleet.toml').",
        ),
        (
            lambda _: ScheduledEvents(faults="faults.toml"),
            "hint: Use pathlib.Path('faults.toml').",
        ),
        (lambda w: w.vm("web_0").fault("f.toml"), "pathlib.Path('f.toml')"),
        (lambda w: w.vm("web_0").reboot("2s"), "takes at most 0 values without names"),
        (
            lambda w: w.vm("web_0").reboot(notise="2s"),
            (
                'Vm.reboot has no "notise" (did you mean "notice"?)\n'
                "hint: Use Vm.reboot(*, notice=None, duration=None, description=None)."
            ),
        ),
        (
            lambda w: w.maintain("h0"),
            (
                "ScheduledEvents.maintain needs impact\nhint: Use "
                "ScheduledEvents.maintain(*hosts, impact, duration=None, "
            ),
        ),
        (lambda w: w.vm("web_0").event("a", type="b"), "Vm.event got type twice"),
        (lambda w: w.wait_for_requests(0), "count must be a whole number from 1 on"),
    ],
)
def test_error_suggests_the_right_call(
    call: Callable[[Any], object], message: str
) -> None:
    with ScheduledEvents(clock="virtual") as world:
        world.vm("web_1").reboot()
        with pytest.raises(ForewarnError) as caught:
            call(world)
    assert message in str(caught.value)


def test_long_lists_of_names_are_shortened() -> None:
    with (
        ScheduledEvents(25, clock="virtual") as world,
        pytest.raises(RefusedError, match=r", web_4 and 5 more$"),
    ):
        world.vm("db_0")


def test_obvious_arguments_need_no_names() -> None:
    with ScheduledEvents(2, clock="virtual", faults=500) as world:
        vm = world.vm("web_0")
        vm.fault(404)
        world.faults.set(503)
        world.faults.play([500, "ok"])
        world.faults.clear("web_0")
        world.faults.clear()
        assert world.faults.counts("web_0") == {}
        event = vm.event("Freeze", notice="15m")
        event.assert_not_approved("0s")
        event.approve("web_0")
        event.assert_approved("web_0")
        event.wait_for_approval(3)
        event.wait_until("Started", "3s")
        event.finish()
        vm.predict_failure("8d")
        world.vm("web_1").maintain("freeze").finish()
        assert len(world.preempt(["web_0", "web_1"])) == 2
        with pytest.raises(NotSeenError, match="polled 0 times; expected 2"):
            vm.assert_asked(2)
        with pytest.raises(NotSeenError, match="expected 1"):
            vm.wait_for_requests(1, 0)
        world.withhold(["web_0"], "web_1")
        world.release(["web_0", "web_1"])


def test_rules_are_accepted_by_exact_name(fronts: dict[type, Any]) -> None:
    world = fronts[ScheduledEvents]
    for name in RULES:
        world.assert_no_deviations(but=name)
    world.assert_no_deviations(but=[*RULES])


def test_help_shows_the_signature_of_a_call() -> None:
    shown = str(inspect.signature(Event.assert_approved))
    assert shown.startswith("(self, by: str = '', *, within: ")
    assert "Fail unless the event is approved" in (
        inspect.getdoc(Event.assert_approved) or ""
    )


def test_missing_file_error_names_the_search_directory(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        ScheduledEvents(fleet=Path("nowhere.toml"))
    assert caught.value.__notes__ == [
        f"hint: 'nowhere.toml' is relative to {Path.cwd()}"
    ]
    with pytest.raises(FileNotFoundError) as caught:
        ScheduledEvents(fleet=tmp_path / "nowhere.toml")
    assert not hasattr(caught.value, "__notes__")
