"""Worlds for programs in any language: JSON Lines in, JSON Lines out.

Each line on standard input is a request. Each line on standard output is the answer to
one request, in the same sequence. An answer has `ok`; errors are values in it and never
end the channel. The end of the input judges and closes every open world.
"""

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from forewarn.problems import did_you_mean
from forewarn.protocol.errors import ForewarnError
from forewarn.service.listening import StartError
from forewarn.sim.journal import JournalEntry
from forewarn.testing.kit.event import Event
from forewarn.testing.kit.failure_report import NotSeenError
from forewarn.testing.kit.vm import Vm
from forewarn.testing.kit.world import ScheduledEvents
from forewarn.testing.messages import LENGTH, TEXTS, Json, Message, MessageError
from forewarn.wording import operators

WORLDS_MAX = 1_000
"""Maximum number of open worlds in one channel. A program that exceeds it probably
never closes a world."""

REPLACED = (
    "This expectation belongs to the previous world, which is now closed. "
    "Begin the new world again."
)
"""Hint for an unmet expectation of a world that a message tried to replace."""

EVENT_OPTIONS = ("notice", "duration", "description")

WORLD = (
    *("vms", "together", "fleet", "clock", "speed", "settings", "profile"),
    *("but", "enabled", "seed", "faults", "scenario", "expect", "replay", "names"),
)


class Worlds:
    """The worlds of one channel by name; the name of the default world is empty."""

    def __init__(self) -> None:
        """Begin without worlds."""
        self._worlds: dict[str, ScheduledEvents] = {}

    def begin(self, message: Message) -> ScheduledEvents:
        """Begin the world of a message, and close one with the same name.

        If it cannot begin, the old world continues. Raises NotSeenError for an unmet
        expectation of the old world; then no world has the name.
        """
        if len(self._worlds.keys() - {message.world}) >= WORLDS_MAX:
            raise MessageError(f"{WORLDS_MAX} worlds are open", hint="Close some.")
        settings = message.given(*WORLD)
        for key in ("fleet", "faults"):
            text = settings.get(key)
            # A string with several lines is the content of a file.
            if isinstance(text, str) and text.endswith(".toml") and "\n" not in text:
                settings[key] = Path(text)
        world = ScheduledEvents(**settings)
        previous = self._worlds.pop(message.world, None)
        if previous is not None:
            try:
                previous.close()
            except BaseException as error:
                world.close(judge=False)
                if isinstance(error, NotSeenError):
                    raise NotSeenError(error.message, hint=REPLACED) from None
                raise
        self._worlds[message.world] = world
        return world

    def of(self, message: Message) -> ScheduledEvents:
        """Return the world of a message."""
        world = self._worlds.get(message.world)
        if world is None:
            meant = did_you_mean(message.world, self._worlds)
            raise MessageError(
                f"there is no world {message.world!r}{meant}",
                hint='Send {"do":"world"} first.',
            )
        return world

    def end(self, message: Message) -> None:
        """Judge and close the world of a message; raises NotSeenError."""
        judge = message.value("judge")
        world = self.of(message)
        del self._worlds[message.world]
        world.close(judge=judge is not False)

    def close(self, *, judge: bool = True) -> list[str]:
        """Close every world; return their unmet expectations."""
        unseen: list[str] = []
        while self._worlds:
            name = next(iter(self._worlds))
            try:
                self._worlds.pop(name).close(judge=judge)
            except ForewarnError as error:
                of = f"world {name!r}: " if name else ""
                unseen.append(f"{of}{error.message}")
        return unseen


Run: TypeAlias = Callable[[Worlds, Message], Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """One verb of the channel."""

    keys: tuple[str, ...]
    run: Run


# Parts of answers
def _vm(vm: Vm) -> Json:
    return {
        "name": vm.name,
        "url": vm.url,
        "events_url": vm.events_url,
        "environment": vm.environment(),
    }


def _event(event: Event) -> Json:
    return {"event": {**event.json, "status": event.status}}


def _events(events: list[Event]) -> Json:
    return {"events": [_event(event)["event"] for event in events]}


def _requests(requests: list[JournalEntry]) -> Json:
    return {"requests": [request.members() for request in requests]}


def _nothing(_result: object) -> Json:
    return {}


# Kinds of verbs
def _of_world(act: Callable[[ScheduledEvents, Message], Json | None]) -> Run:
    return lambda worlds, message: act(worlds.of(message), message) or {}


def _of_event(act: Callable[[Event, Message], Json | None]) -> Run:
    """Return the verb of an event; its answer has the event's new state."""

    def run(worlds: Worlds, message: Message) -> Json:
        event = worlds.of(message).event(message.needed("event"))
        members = act(event, message) or {}
        return {**_event(event), **members}

    return run


def _the_world(
    name: str,
    *keys: str,
    needs: tuple[str, ...] = (),
    answer: Callable[[Any], Json] = _nothing,
) -> Verb:
    """Return the verb that calls the method of a world with this name."""
    return Verb(
        keys=keys,
        run=_of_world(
            lambda world, message: answer(
                getattr(world, name)(**message.given(*keys, needs=needs))
            )
        ),
    )


def _the_vm(name: str, *keys: str, answer: Callable[[Any], Json] = _event) -> Verb:
    """Return the verb that calls the method of a VM with this name."""

    def act(world: ScheduledEvents, message: Message) -> Json:
        vm = world.vm(message.needed("vm"))
        return answer(getattr(vm, name)(**message.given(*keys)))

    return Verb(keys=("vm", *keys), run=_of_world(act))


def _the_event(name: str, *keys: str, needs: tuple[str, ...] = ()) -> Verb:
    """Return the verb that calls the method of an event with this name."""

    def act(event: Event, message: Message) -> None:
        getattr(event, name)(**message.given(*keys, needs=needs))

    return Verb(keys=("event", *keys), run=_of_event(act))


def _one_or_several(
    name: str, several: str, *keys: str, needs: tuple[str, ...] = ()
) -> Verb:
    """Return the verb of one VM, or of several VMs by a method of the world."""

    def act(world: ScheduledEvents, message: Message) -> Json:
        message.check_one_of("vm", "vms")
        arguments = message.given(*keys, needs=needs)
        if message.has("vm"):
            return _event(getattr(world.vm(message.needed("vm")), name)(**arguments))
        return _events(
            getattr(world, several)(message.value("vms", TEXTS) or (), **arguments)
        )

    return Verb(keys=("vm", "vms", *keys), run=_of_world(act))


# Verbs with more than one call
def _world(worlds: Worlds, message: Message) -> Json:
    world = worlds.begin(message)
    # A recording has no hosts.
    hosts = [] if message.has("replay") else list(world.hosts)
    return {"vms": [_vm(vm) for vm in world.vms], "hosts": hosts}


def _close(worlds: Worlds, message: Message) -> Json:
    worlds.end(message)
    return {}


def _maintain(world: ScheduledEvents, message: Message) -> Json:
    message.check_one_of("vm", "hosts")
    arguments = message.given("impact", *EVENT_OPTIONS, needs=("impact",))
    if message.has("vm"):
        return _event(world.vm(message.needed("vm")).maintain(**arguments))
    if "notice" in arguments:
        raise MessageError("'notice' needs 'vm': hosts get the notice of the rules")
    return _events(
        world.maintain(
            message.value("hosts") or (), **arguments, **message.given("at_once")
        )
    )


def _order(world: ScheduledEvents, message: Message) -> Json:
    request = message.given("verb", "arguments", needs=("verb",))
    return _events(world.order(message.value("targets") or (), **request))


def _wait_for_approval(event: Event, message: Message) -> Json:
    approval = event.wait_for_approval(**message.given("timeout"))
    return {"by": approval.by, "after_seconds": approval.after.total_seconds()}


def _wait_for_requests(world: ScheduledEvents, message: Message) -> Json:
    target = world.vm(message.needed("vm")) if message.has("vm") else world
    return _requests(target.wait_for_requests(**message.given("count", "timeout")))


def _journal(world: ScheduledEvents, message: Message) -> Json:
    requests = (
        world.vm(message.needed("vm")).requests if message.has("vm") else world.journal
    )
    since = message.value("since") or 0
    return _requests([request for request in requests if request.number > since])


def _names(world: ScheduledEvents, message: Message) -> list[str]:
    return message.value("vms", TEXTS) or [vm.name for vm in world.vms]


VERBS: Mapping[str, Verb] = {
    "world": Verb(keys=WORLD, run=_world),
    "close": Verb(keys=("judge",), run=_close),
    "judge": _the_world("judge"),
    "vms": Verb(
        keys=(),
        run=_of_world(lambda world, _: {"vms": [_vm(vm) for vm in world.vms]}),
    ),
    "add_vm": Verb(
        keys=("vm", "host", "spot"),
        run=_of_world(
            lambda w, m: _vm(w.add_vm(m.needed("vm"), **m.given("host", "spot")))
        ),
    ),
    "remove_vm": Verb(
        keys=("vm",), run=_of_world(lambda w, m: w.remove_vm(m.needed("vm")))
    ),
    "document": _the_vm("document", answer=lambda document: {"document": document}),
    "reboot": _the_vm("reboot", *EVENT_OPTIONS),
    "redeploy": _the_vm("redeploy", *EVENT_OPTIONS),
    "freeze": _the_vm("freeze", *EVENT_OPTIONS),
    "live_migrate": _the_vm("live_migrate", *EVENT_OPTIONS),
    "preempt": _one_or_several("preempt", "preempt", "notice", "description"),
    "evict": _one_or_several("evict", "evict", "notice", "description"),
    "terminate": _one_or_several("terminate", "terminate", "notice", "description"),
    "maintain": Verb(
        keys=("vm", "hosts", "impact", "at_once", *EVENT_OPTIONS),
        run=_of_world(_maintain),
    ),
    "order": Verb(keys=("verb", "targets", "arguments"), run=_of_world(_order)),
    "predict_failure": _the_vm("predict_failure", "ahead"),
    "fail": _the_world("fail", "name", needs=("name",), answer=_events),
    "restore": _the_world("restore", "name", needs=("name",)),
    "event": _one_or_several(
        *("event", "inject", "type", "source", "migrates", *EVENT_OPTIONS),
        needs=("type",),
    ),
    "events": Verb(keys=(), run=_of_world(lambda world, _: _events(world.events))),
    "status": Verb(keys=("event",), run=_of_event(lambda _event, _: None)),
    "approve": _the_event("approve", "vm"),
    "start": _the_event("start"),
    "recover": _the_event("recover"),
    "finish": _the_event("finish"),
    "cancel": _the_event("cancel"),
    "withhold": Verb(
        keys=("vms",), run=_of_world(lambda w, m: w.withhold(_names(w, m)))
    ),
    "release": Verb(keys=("vms",), run=_of_world(lambda w, m: w.release(_names(w, m)))),
    "advance": Verb(
        keys=("by",), run=_of_world(lambda w, m: w.advance(m.needed("by", LENGTH)))
    ),
    "step": _the_world("step", answer=lambda seconds: {"seconds": seconds}),
    "pause": _the_world("pause"),
    "resume": _the_world("resume"),
    "now": Verb(keys=(), run=_of_world(lambda w, _: {"now": w.now.isoformat()})),
    "faults": Verb(
        keys=("faults", "vm"),
        run=_of_world(
            lambda w, m: w.faults.set(m.needed("faults"), vm=m.value("vm") or "")
        ),
    ),
    "clear_faults": Verb(
        keys=("vm",), run=_of_world(lambda w, m: w.faults.clear(m.value("vm") or ""))
    ),
    "journal": Verb(keys=("vm", "since"), run=_of_world(_journal)),
    "deviations": Verb(
        keys=(), run=_of_world(lambda w, _: {"deviations": w.deviations})
    ),
    "wait_for_approval": Verb(
        keys=("event", "timeout"), run=_of_event(_wait_for_approval)
    ),
    "wait_until": _the_event("wait_until", "status", "timeout", needs=("status",)),
    "wait_for_requests": Verb(
        keys=("vm", "count", "timeout"), run=_of_world(_wait_for_requests)
    ),
    "wait_for_event": _the_world(
        *("wait_for_event", "type", "vm", "timeout"), answer=_event
    ),
    "assert_approved": _the_event("assert_approved", "by", "within"),
    "assert_not_approved": _the_event("assert_not_approved", "during"),
    "assert_status": _the_event("assert_status", "status", needs=("status",)),
    "assert_asked": _the_vm("assert_asked", "at_least", answer=_nothing),
    "assert_approved_nothing": _the_vm("assert_approved_nothing", answer=_nothing),
    "assert_no_deviations": _the_world("assert_no_deviations", "but"),
    "run_scenario": _the_world(
        *("run_scenario", "name", "timeout", "expect"), needs=("name",)
    ),
    "wait_for_scenario": _the_world("wait_for_scenario", "timeout"),
    "wait_for_replay": _the_world("wait_for_replay", "timeout", answer=_events),
    "api_url": Verb(keys=(), run=_of_world(lambda w, _: {"url": w.api_url})),
}
"""Every verb, with its keys in addition to `do`, `id` and `world`."""


logger = logging.getLogger("forewarn.testing.channel")


def serve(lines: Iterable[str], write: Callable[[str], object]) -> list[str]:
    """Answer each line until the end of the input; then judge and close every world.

    Return the unmet expectations of worlds that were still open.
    """
    worlds = Worlds()
    try:
        for line in lines:
            write(json.dumps(answer(worlds, line), separators=(",", ":")))
        return worlds.close()
    finally:
        worlds.close(judge=False)


def answer(worlds: Worlds, line: str) -> dict[str, Any]:
    """Return the answer to one line."""
    number: Any = None
    try:
        message = Message.read(line)
        number = message.id
        reply: dict[str, Any] = {"ok": True, **_carry_out(worlds, message)}
    except ForewarnError as error:
        reply = {"ok": False, "kind": _kind(error), "error": operators.refusal(error)}
        if error.hint:
            reply["hint"] = error.hint
    except OSError as error:
        reply = {"ok": False, "kind": "machine", "error": str(error)}
        if notes := getattr(error, "__notes__", []):
            reply["hint"] = " ".join(notes).removeprefix("hint: ")
    except Exception as error:
        # The last resort: the other worlds of the channel must stay open.
        logger.exception("could not answer a line because of a bug in forewarn")
        reply = {
            "ok": False,
            "kind": "bug",
            "error": f"this is a bug in forewarn: {error!r}",
        }
    if number is not None:
        reply["id"] = number
    return reply


def _carry_out(worlds: Worlds, message: Message) -> dict[str, Any]:
    verb = VERBS.get(message.verb)
    if verb is None:
        raise MessageError(
            f"there is no verb {message.verb!r}{did_you_mean(message.verb, VERBS)}",
            hint=f"The verbs are: {', '.join(sorted(VERBS))}.",
        )
    message.check(verb.keys)
    return verb.run(worlds, message)


def _kind(error: ForewarnError) -> str:
    """Return the kind of an error: caused by the program, the machine or the line."""
    if isinstance(error, NotSeenError):
        return "failed"
    if isinstance(error, StartError):
        return "machine"
    return "usage" if isinstance(error, MessageError) else "refused"
