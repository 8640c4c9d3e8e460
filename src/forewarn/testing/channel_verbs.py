"""The verbs of the channel: each is one method of a world, by the same name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias, cast

from forewarn.problems import did_you_mean
from forewarn.protocol.errors import ForewarnError
from forewarn.testing.kit.event import Event
from forewarn.testing.kit.failure_report import NotSeenError
from forewarn.testing.kit.orders import Impact
from forewarn.testing.kit.setup import ClockKind, ExpectName, ProfileName
from forewarn.testing.kit.statuses import Status
from forewarn.testing.kit.vm import Vm
from forewarn.testing.kit.waits import (
    APPROVAL_SECONDS,
    EVENT_SECONDS,
    REQUEST_SECONDS,
    STATUS_SECONDS,
)
from forewarn.testing.kit.world import ScheduledEvents
from forewarn.testing.messages import Json, Message, MessageError

WORLDS_MAX = 1_000
"""Worlds of one channel at once: more is a program that closes none."""

REPLACED = "it was the world before; none has its name now, so begin this one again"
"""Where a world did not end well that another one was to replace."""

WISHES = ("notice", "duration", "description")


class Worlds:
    """The worlds of one channel, by their names; the usual one has none."""

    def __init__(self) -> None:
        """Begin with none."""
        self._worlds: dict[str, ScheduledEvents] = {}

    def begin(self, message: Message) -> ScheduledEvents:
        """Begin the world that a message names, instead of one of that name.

        Where it cannot begin, the other one goes on. Raises NotSeenError for what that
        one expected; then the name has no world.
        """
        if len(self._worlds.keys() - {message.world}) >= WORLDS_MAX:
            raise MessageError(f"{WORLDS_MAX} worlds are open", hint="close some")
        world = ScheduledEvents(
            vms=message.number("vms"),
            together=bool(message.flag("together")),
            fleet=_path_or_text(message, "fleet", suffix=".toml"),
            clock=cast("ClockKind", message.text("clock", "machine")),
            speed=_speed(message),
            settings=message.table("settings"),
            profile=cast("ProfileName", message.text("profile", "lenient")),
            but=message.texts("but"),
            enabled=message.flag("enabled"),
            seed=message.number("seed"),
            faults=_path_or_text(message, "faults", suffix=".toml"),
            scenario=_text_if_any(message, "scenario"),
            expect=cast("ExpectName | None", _text_if_any(message, "expect")),
            replay=_text_if_any(message, "replay"),
            names=message.texts("names"),
        )
        before = self._worlds.pop(message.world, None)
        if before is not None:
            try:
                before.close()
            except BaseException as error:
                world.close(judge=False)
                if isinstance(error, NotSeenError):
                    raise NotSeenError(error.message, hint=REPLACED) from None
                raise
        self._worlds[message.world] = world
        return world

    def of(self, message: Message) -> ScheduledEvents:
        """Return the world that a message is about."""
        world = self._worlds.get(message.world)
        if world is None:
            meant = did_you_mean(message.world, self._worlds)
            raise MessageError(
                f"there is no world {message.world!r}{meant}",
                hint='{"do":"world"} comes first',
            )
        return world

    def end(self, message: Message) -> None:
        """End the world that a message is about; raises NotSeenError, see `judge`."""
        judge = message.flag("judge")
        world = self.of(message)
        del self._worlds[message.world]
        world.close(judge=judge is not False)

    def close(self, *, judge: bool = True) -> list[str]:
        """End every world; return what they expected and was not seen."""
        unseen: list[str] = []
        while self._worlds:
            name = next(iter(self._worlds))
            try:
                self._worlds.pop(name).close(judge=judge)
            except ForewarnError as error:
                of = f"world {name!r}: " if name else ""
                unseen.append(f"{of}{error.message}")
        return unseen


def _speed(message: Message) -> float | None:
    speed = message.length("speed")
    if isinstance(speed, str | timedelta):
        raise MessageError(f"'speed' must be a number, not {speed!r}")
    return speed


def _text_if_any(message: Message, key: str) -> str | None:
    return message.text(key, "") if message.has(key) else None


def _path_or_text(message: Message, key: str, *, suffix: str) -> str | Path:
    text = message.text(key, "")
    return Path(text) if text.endswith(suffix) and "\n" not in text else text


Run: TypeAlias = Callable[[Worlds, Message], Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """One verb of the channel."""

    keys: tuple[str, ...]
    run: Run


# What is told


def _told(vm: Vm) -> Json:
    return {
        "name": vm.name,
        "url": vm.url,
        "events_url": vm.events_url,
        "environment": vm.environment(),
    }


def _event(event: Event) -> Json:
    return {"event": {**event.json, "status": event.status}}


def _events(events: list[Event]) -> Json:
    return {"events": [_event(each)["event"] for each in events]}


def _world(worlds: Worlds, message: Message) -> Json:
    world = worlds.begin(message)
    # A recording knows of no hosts.
    hosts = [] if message.has("replay") else list(world.hosts)
    return {"vms": [_told(vm) for vm in world.vms], "hosts": hosts}


def _add_vm(world: ScheduledEvents, message: Message) -> Json:
    return _told(
        world.add_vm(
            message.text("vm"),
            host=message.text("host", ""),
            spot=bool(message.flag("spot")),
        )
    )


def _close(worlds: Worlds, message: Message) -> Json:
    worlds.end(message)
    return {}


# What a verb is about


def _of_world(act: Callable[[ScheduledEvents, Message], Json | None]) -> Run:
    return lambda worlds, message: act(worlds.of(message), message) or {}


def _of_vm(act: Callable[[Vm, Message], Json | None]) -> Run:
    def run(worlds: Worlds, message: Message) -> Json:
        return act(worlds.of(message).vm(message.text("vm")), message) or {}

    return run


def _of_event(act: Callable[[Event, Message], object]) -> Run:
    """Return the verb of an event: the answer tells how it stands afterwards."""

    def run(worlds: Worlds, message: Message) -> Json:
        event = worlds.of(message).event(message.text("event"))
        said = act(event, message)
        return {
            **_event(event),
            **(cast("Json", said) if isinstance(said, dict) else {}),
        }

    return run


def _wishes(message: Message) -> dict[str, Any]:
    wishes: dict[str, Any] = {
        key: message.length(key) for key in WISHES[:2] if message.has(key)
    }
    if message.has("description"):
        wishes["description"] = message.text("description")
    return wishes


def _ordered(name: str, *, keys: tuple[str, ...] = WISHES) -> Verb:
    """Return an order about one VM, whose method has this name."""

    def act(vm: Vm, message: Message) -> Json:
        return _event(getattr(vm, name)(**_wishes(message)))

    return Verb(keys=("vm", *keys), run=_of_vm(act))


def _maintain(world: ScheduledEvents, message: Message) -> Json:
    message.check_one_of("vm", "hosts")
    wishes, impact = _wishes(message), message.text("impact")
    if message.has("vm"):
        return _event(
            world.vm(message.text("vm")).maintain(cast("Impact", impact), **wishes)
        )
    hosts = message.texts("hosts")
    if "notice" in wishes:
        raise MessageError("'notice' belongs to a vm: hosts have that of the rules")
    if message.has("at_once"):
        wishes["at_once"] = message.number("at_once")
    return _events(world.maintain(*hosts, impact=cast("Impact", impact), **wishes))


def _stage(world: ScheduledEvents, message: Message) -> Json:
    message.check_one_of("vm", "vms")
    wishes = _wishes(message)
    wishes["migrates"] = bool(message.flag("migrates"))
    if message.has("source"):
        wishes["source"] = message.text("source")
    kind = message.text("type")
    if message.has("vm"):
        return _event(world.vm(message.text("vm")).event(type=kind, **wishes))
    return _events(world.inject(*message.texts("vms"), type=kind, **wishes))


def _deletion(world: ScheduledEvents, message: Message) -> Json:
    message.check_one_of("vm", "vms")
    name, wishes = message.verb, _wishes(message)
    if message.has("vm"):
        vm = world.vm(message.text("vm"))
        return _event(getattr(vm, name)(**wishes))
    return _events(getattr(world, name)(*message.texts("vms"), **wishes))


def _order(world: ScheduledEvents, message: Message) -> Json:
    targets, arguments = message.texts("targets"), message.members("arguments")
    return _events(world.order(targets, verb=message.text("verb"), arguments=arguments))


def _fail(world: ScheduledEvents, message: Message) -> Json:
    return _events(world.fail(message.text("name")))


def _predict(vm: Vm, message: Message) -> Json:
    return _event(vm.predict_failure(ahead=message.length("ahead")))


# Waits and assertions


def _wait_for_approval(event: Event, message: Message) -> Json:
    timeout = message.length("timeout")
    found = event.wait_for_approval(
        timeout=APPROVAL_SECONDS if timeout is None else timeout
    )
    return {"by": found.by, "after_seconds": found.after.total_seconds()}


def _wait_until(event: Event, message: Message) -> None:
    timeout = message.length("timeout")
    event.wait_until(
        cast("Status", message.text("status")),
        timeout=STATUS_SECONDS if timeout is None else timeout,
    )


def _wait_for_requests(world: ScheduledEvents, message: Message) -> Json:
    count, timeout = message.number("count"), message.length("timeout")
    whom = world.vm(message.text("vm")) if message.has("vm") else world
    found = whom.wait_for_requests(
        1 if count is None else count,
        timeout=REQUEST_SECONDS if timeout is None else timeout,
    )
    return {"requests": [seen.members() for seen in found]}


def _wait_for_event(world: ScheduledEvents, message: Message) -> Json:
    timeout = message.length("timeout")
    found = world.wait_for_event(
        message.text("type", ""),
        vm=message.text("vm", ""),
        timeout=EVENT_SECONDS if timeout is None else timeout,
    )
    return _event(found)


def _wait_for_replay(world: ScheduledEvents, message: Message) -> Json:
    return _events(world.wait_for_replay(message.length("timeout")))


def _assert_not_approved(event: Event, message: Message) -> None:
    during = message.length("during")
    event.assert_not_approved(during=0.0 if during is None else during)


def _assert_approved(event: Event, message: Message) -> None:
    event.assert_approved(by=message.text("by", ""), within=message.length("within"))


def _assert_asked(vm: Vm, message: Message) -> None:
    at_least = message.number("at_least")
    vm.assert_asked(1 if at_least is None else at_least)


def _assert_status(event: Event, message: Message) -> None:
    event.assert_status(cast("Status", message.text("status")))


def _needed(message: Message, key: str) -> Any:
    length = message.length(key)
    if length is None:
        raise MessageError(f'{key!r} is missing: it must be a length such as "15m"')
    return length


def _journal(world: ScheduledEvents, message: Message) -> Json:
    found = (
        world.vm(message.text("vm")).requests if message.has("vm") else world.journal
    )
    since = message.number("since") or 0
    return {"requests": [seen.members() for seen in found if seen.number > since]}


def _run_scenario(world: ScheduledEvents, message: Message) -> Json:
    world.run_scenario(
        message.text("name"),
        timeout=message.length("timeout"),
        expect=_expect(message),
    )
    return {}


def _expect(message: Message) -> ExpectName:
    return cast("ExpectName", message.text("expect", "scenario"))


def _wait_for_scenario(world: ScheduledEvents, message: Message) -> Json:
    world.wait_for_scenario(timeout=message.length("timeout"))
    return {}


def _names(world: ScheduledEvents, message: Message) -> list[str]:
    return message.texts("vms") or [vm.name for vm in world.vms]


VERBS: Mapping[str, Verb] = {
    "world": Verb(
        keys=(
            *("vms", "together", "fleet", "clock", "speed", "settings", "profile"),
            *("but", "enabled", "seed", "faults", "scenario", "expect"),
            *("replay", "names"),
        ),
        run=_world,
    ),
    "close": Verb(keys=("judge",), run=_close),
    "judge": Verb(keys=(), run=_of_world(lambda w, _: w.judge())),
    "vms": Verb(
        keys=(),
        run=_of_world(lambda world, _: {"vms": [_told(vm) for vm in world.vms]}),
    ),
    "add_vm": Verb(keys=("vm", "host", "spot"), run=_of_world(_add_vm)),
    "remove_vm": Verb(
        keys=("vm",), run=_of_world(lambda w, m: w.remove_vm(m.text("vm")))
    ),
    "document": Verb(
        keys=("vm",), run=_of_vm(lambda vm, _: {"document": vm.document()})
    ),
    "reboot": _ordered("reboot"),
    "redeploy": _ordered("redeploy"),
    "freeze": _ordered("freeze"),
    "live_migrate": _ordered("live_migrate"),
    "preempt": Verb(
        keys=("vm", "vms", "notice", "description"), run=_of_world(_deletion)
    ),
    "evict": Verb(
        keys=("vm", "vms", "notice", "description"), run=_of_world(_deletion)
    ),
    "terminate": Verb(
        keys=("vm", "vms", "notice", "description"), run=_of_world(_deletion)
    ),
    "maintain": Verb(
        keys=("vm", "hosts", "impact", "at_once", *WISHES), run=_of_world(_maintain)
    ),
    "order": Verb(keys=("verb", "targets", "arguments"), run=_of_world(_order)),
    "predict_failure": Verb(keys=("vm", "ahead"), run=_of_vm(_predict)),
    "fail": Verb(keys=("name",), run=_of_world(_fail)),
    "restore": Verb(
        keys=("name",), run=_of_world(lambda w, m: w.restore(m.text("name")))
    ),
    "event": Verb(
        keys=("vm", "vms", "type", "source", "migrates", *WISHES), run=_of_world(_stage)
    ),
    "events": Verb(keys=(), run=_of_world(lambda world, _: _events(world.events))),
    "status": Verb(keys=("event",), run=_of_event(lambda _event, _: None)),
    "approve": Verb(
        keys=("event", "vm"), run=_of_event(lambda e, m: e.approve(m.text("vm", "")))
    ),
    "start": Verb(keys=("event",), run=_of_event(lambda e, _: e.start())),
    "recover": Verb(keys=("event",), run=_of_event(lambda e, _: e.recover())),
    "finish": Verb(keys=("event",), run=_of_event(lambda e, _: e.finish())),
    "cancel": Verb(keys=("event",), run=_of_event(lambda e, _: e.cancel())),
    "withhold": Verb(
        keys=("vms",), run=_of_world(lambda w, m: w.withhold(*_names(w, m)))
    ),
    "release": Verb(
        keys=("vms",), run=_of_world(lambda w, m: w.release(*_names(w, m)))
    ),
    "advance": Verb(
        keys=("by",), run=_of_world(lambda w, m: w.advance(_needed(m, "by")))
    ),
    "step": Verb(keys=(), run=_of_world(lambda w, _: {"seconds": w.step()})),
    "pause": Verb(keys=(), run=_of_world(lambda w, _: w.pause())),
    "resume": Verb(keys=(), run=_of_world(lambda w, _: w.resume())),
    "now": Verb(keys=(), run=_of_world(lambda w, _: {"now": w.now.isoformat()})),
    "faults": Verb(
        keys=("faults", "vm"),
        run=_of_world(
            lambda w, m: w.faults.set(m.fault("faults"), vm=m.text("vm", ""))
        ),
    ),
    "clear_faults": Verb(
        keys=("vm",), run=_of_world(lambda w, m: w.faults.clear(m.text("vm", "")))
    ),
    "journal": Verb(keys=("vm", "since"), run=_of_world(_journal)),
    "deviations": Verb(
        keys=(), run=_of_world(lambda w, _: {"deviations": w.deviations})
    ),
    "wait_for_approval": Verb(
        keys=("event", "timeout"), run=_of_event(_wait_for_approval)
    ),
    "wait_until": Verb(keys=("event", "status", "timeout"), run=_of_event(_wait_until)),
    "wait_for_requests": Verb(
        keys=("vm", "count", "timeout"), run=_of_world(_wait_for_requests)
    ),
    "wait_for_event": Verb(
        keys=("type", "vm", "timeout"), run=_of_world(_wait_for_event)
    ),
    "assert_approved": Verb(
        keys=("event", "by", "within"), run=_of_event(_assert_approved)
    ),
    "assert_not_approved": Verb(
        keys=("event", "during"), run=_of_event(_assert_not_approved)
    ),
    "assert_status": Verb(keys=("event", "status"), run=_of_event(_assert_status)),
    "assert_asked": Verb(keys=("vm", "at_least"), run=_of_vm(_assert_asked)),
    "assert_approved_nothing": Verb(
        keys=("vm",), run=_of_vm(lambda vm, _: vm.assert_approved_nothing())
    ),
    "assert_no_deviations": Verb(
        keys=("but",),
        run=_of_world(lambda w, m: w.assert_no_deviations(but=m.texts("but"))),
    ),
    "run_scenario": Verb(
        keys=("name", "timeout", "expect"), run=_of_world(_run_scenario)
    ),
    "wait_for_scenario": Verb(keys=("timeout",), run=_of_world(_wait_for_scenario)),
    "wait_for_replay": Verb(keys=("timeout",), run=_of_world(_wait_for_replay)),
    "api_url": Verb(keys=(), run=_of_world(lambda w, _: {"url": w.api_url})),
}
"""Every verb, with the keys that it takes beside `do`, `id` and `world`."""
