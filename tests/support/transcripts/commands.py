"""The commands of a story, besides the verbs: who listens, time, crashes, faults."""

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

from forewarn.drivers.port import Sighting, StopCause
from forewarn.drivers.tasks import Fault, FaultKind
from forewarn.fleet.availability import Period
from forewarn.fleet.model import Vm, VmState
from forewarn.protocol.operations import Action
from forewarn.reporting import explanations, uptime
from forewarn.service.option_table import OPTIONS
from forewarn.store import kinds
from forewarn.store.port import Store, every
from forewarn.wording.operators import detail_of, note, task
from tests.support.transcripts import fleet_lines, moments
from tests.support.transcripts.form import Block, replay
from tests.support.transcripts.orders import ORDERS, order
from tests.support.transcripts.story import Story
from tests.support.transcripts.words import Words
from tests.support.worlds import NEWEST, START, Answer

PLACES = ("committed", "published", "called")
"""The points at which the plane can crash; `plane` has the work that each leaves
undone."""

BREAK = "},{"
BROKEN = "},\n  {"
"""The text between two events of a document, where a story begins a new line."""


def fleet(story: Story, words: Words, body: Sequence[str]) -> None:
    """Apply a fleet: a file's, or what the body says, as TOML or line by line."""
    names = words.all(least=0, most=1)
    tables = story.tables
    if names:
        if story.directory is None:
            raise words.error("there is no directory of fleets here")
        file = story.directory / f"{names[0]}.toml"
        if not file.is_file():
            raise words.error(f"there is no fleet {names[0]}")
        tables = fleet_lines.read(file.read_text(encoding="utf-8"))
    if body and body[0].startswith("["):
        tables = fleet_lines.read("\n".join(body))
    else:
        for line in body:
            tables = fleet_lines.edit(tables, line)
    for line in story.apply_fleet(tables).lines():
        story.say(line)


def policy(story: Story, words: Words) -> None:
    """Change settings: `recovery=5m`, by their names in forewarn.toml."""
    for pair in words.all():
        key, _, value = pair.partition("=")
        names = [
            name
            for name in OPTIONS
            if (name == key or name.endswith(f".{key}"))
            # A story runs no programs: `freeze` is how long the simulated one takes.
            and not name.startswith(
                ("driver.command.", "driver.libvirt.", "driver.qemu.")
            )
        ]
        if len(names) != 1:
            raise words.error(f"there is no one setting {key}")
        story.set(names[0], value)


def listen(story: Story, words: Words) -> None:
    """Have VMs ask, now and from now on, as an agent does."""
    for vm in words.all():
        story.audience.join(vm)
    story.audience.ask(story.world)


def silence(story: Story, words: Words) -> None:
    """Have VMs ask no longer."""
    for vm in words.all():
        story.audience.leave(vm)


def get(story: Story, words: Words) -> None:
    """Have a VM ask once, and show its answer."""
    etag = words.option("--etag")
    vm, *version = words.all(most=2)
    _show(story, story.world.vm(vm).get(*(version or [NEWEST]), etag=etag))


def own(story: Story, words: Words) -> None:
    """Have a VM ask for what it may know of its own events, and show the answer."""
    document = story.world.vm(words.one()).own_events().json
    for event in document["Events"]:
        named = "" if event["Affected"] else ", of others"
        story.say(f"{event['EventId']} {event['EventStatus']}{named}")
        for wait in event["WaitsFor"]:
            when = f" until {wait['At']}" if "At" in wait else ""
            who = f" [{', '.join(wait['Resources'])}]" if "Resources" in wait else ""
            story.say(f"  {wait['Reason']}{who}{when}: {wait['Message']}")
    for event in document["Ended"]:
        at_most = "at most " if event["IsUpperBound"] else ""
        story.say(
            f"{event['EventId']} {event['Outcome']} at {event['EndedAt']}, down for "
            f"{at_most}{event['DownSeconds']} s"
        )


def post(story: Story, words: Words) -> None:
    """Have a VM approve events, all in one request."""
    lower = words.flag("--lower-case")
    version = words.option("--version", NEWEST)
    vm, *events = words.all(least=2)
    if lower:
        events = [event.lower() for event in events]
    _show(story, story.world.vm(vm).approve(*events, version=version))


def approve(story: Story, words: Words) -> None:
    """Approve as a VM does, `approve web_0 e1`, or as an operator, `approve e1`."""
    first = words.line.split()[1:2]
    if first and story.world.read(lambda reader: reader.get(Vm, first[0])):
        post(story, words)
    else:
        order(story, words)


def _show(story: Story, answer: Answer) -> None:
    text = answer.body.decode("ascii")
    if answer.status >= HTTPStatus.BAD_REQUEST:
        text = answer.json["error"]
    story.say(f"{answer.status} {text.replace(BREAK, BROKEN)}".rstrip())


def run(story: Story, words: Words) -> None:
    """Let time pass: `run 15m`, or `run until 00:20:00`."""
    arguments = words.all(most=3)
    now = story.world.now
    if arguments[0] == "until":
        target = words.as_moment(" ".join(arguments[1:]), now=now)
    else:
        target = now + words.as_duration(" ".join(arguments))
    if target < now:
        raise words.error("time does not go back")
    story.run_until(target)


def crash(story: Story, words: Words) -> None:
    """Crash now, or `crash at PLACE [N]`: when it is passed for the Nth time."""
    arguments = words.all(least=0, most=3)
    if not arguments:
        story.crash()
        return
    if arguments[0] != "at" or arguments[1:2] == [] or arguments[1] not in PLACES:
        raise words.error(f"a crash is at one of {', '.join(PLACES)}")
    wanted = arguments[1]
    world = story.world
    # What VMs have asked so far is noted now, so that only what follows counts.
    world.settle()
    last = world.passed[wanted] + int(arguments[2] if arguments[2:] else 1)
    world.crash_at = lambda place, count: place == wanted and count == last


def restart(story: Story, words: Words) -> None:
    """Begin again on what is durable: `restart`, or `restart --after 3h`."""
    after = words.duration("--after") or 0
    words.all(least=0, most=0)
    story.restart(after=after)


def fault(story: Story, words: Words) -> None:
    """Have calls to the driver go wrong: `fault fail freeze`, `fault none`."""
    times = words.option("--times", "1")
    reason = words.option("--reason", "a simulated fault")
    vm, elsewhere = words.option("--vm"), words.option("--elsewhere")
    leaves_down, endless = words.flag("--leaves-down"), words.flag("--endless")
    spares_others = words.flag("--spares-others")
    kind, *action = words.all(most=2)
    if kind == "none":
        story.driver.clear()
        return
    try:
        story.driver.inject(
            Fault(
                kind=FaultKind(kind),
                action=Action(action[0]) if action else None,
                vm=vm,
                times=None if times == "all" else int(times),
                reason=reason,
                leaves_down=leaves_down,
                elsewhere=elsewhere,
                abortable=not endless,
                spares_others=spares_others,
            )
        )
    except ValueError as error:
        raise words.error(str(error)) from error


def see(story: Story, words: Words) -> None:
    """Have something happen to VMs unasked: `see web_0 stopped`, `see web_0 running`."""
    host, text = words.option("--host"), words.option("--text")
    *vms, how = words.all(least=2)
    if how not in _SEEN:
        raise words.error(f"say {' or '.join(_SEEN)}")
    for vm in vms:
        story.driver.see(
            Sighting(
                vm=vm,
                running=how == "running",
                cause=_SEEN[how],
                host=host,
                at=story.world.now,
                text=text,
            )
        )
    story.world.settle()


_SEEN = {
    "running": StopCause.FAILED,
    "stopped": StopCause.FAILED,
    "shut-down": StopCause.SHUT_DOWN,
}


def explain(story: Story, words: Words) -> None:
    """Say where an operation stands, and every reason that holds it."""
    world = story.world
    operation = world.operation(words.one())
    explanation = world.read(
        lambda reader: explanations.of_operation(reader, operation, now=world.now)
    )
    story.say(
        f"{explanation['id']} {explanation['what']}, {explanation['state']}: {explanation['status']}"
    )
    for sentence in explanation["blocked_by"]:
        story.say(f"  {sentence}")


def operations(story: Story, words: Words) -> None:
    """List all operations."""
    words.all(least=0, most=0)
    listed = story.world.operations()
    for operation in sorted(
        listed, key=lambda operation: story.names.place(operation.operation_id)
    ):
        note_text = note(operation.note)
        why = f" ({note_text})" if note_text else ""
        task_text = task(operation)
        story.say(f"{operation.operation_id} {task_text}: {operation.state.value}{why}")


def vms(story: Story, words: Words) -> None:
    """List all VMs: where they are, and whether they run."""
    words.all(least=0, most=0)
    for vm in story.world.read(lambda reader: list(every(reader, kinds.ALL_VMS))):
        moving = f", moving to {vm.moving_to}" if vm.moving_to else ""
        where = "" if vm.state is VmState.DELETED else f" on {vm.host}"
        story.say(f"{vm.name}{where}: {vm.state.value}{moving}")


def history(story: Story, words: Words) -> None:
    """Show the trail of a VM, a host, an operation, a request or an event."""
    name = words.one()
    world = story.world
    for kind in ("vm", "host", "scope", "operation", "request", "event"):
        entries = world.read(
            lambda reader, k=kind: list(
                every(reader, kinds.AUDIT_OF_SUBJECT, f"{k}:{name}")
            )
        )
        for entry in entries:
            text = detail_of(entry)
            detail = f": {text}" if text else ""
            at = moments.told(entry.at)
            story.say(f"{at} {entry.actor.text}, {entry.what}{detail}")


def availability(story: Story, words: Words) -> None:
    """Show how long VMs were down: `availability web_0 --since 1h`, `--scope web`."""
    world = story.world
    since = words.duration("--since")
    scope, tenant = words.option("--scope"), words.option("--tenant")
    names = words.all(least=0, most=1)
    query = uptime.SpanSelection(
        period=Period(
            since=START if since is None else world.now - since,
            until=world.now,
        ),
        vm=names[0] if names else "",
        scope=scope,
        tenant=tenant,
    )
    page = world.read(lambda reader: uptime.page(reader, query, after="", limit=100))
    for row in page["vms"]:
        story.say(f"{row['vm']}: {_availability(row)}")
    if not names:
        story.say(f"together: {_availability(page['total'])}")
    if several := page["several_domains_down_seconds"]:
        story.say(f"several fault domains at once: {several} s")


def _availability(row: Mapping[str, Any]) -> str:
    percent = "never there" if row["percent"] is None else f"{row['percent']} %"
    parts = [f"{percent} of {row['existed_seconds']} s"]
    parts += [f"{kind} {length} s" for kind, length in row["by_kind"].items()]
    if row["unknown_seconds"]:
        parts.append(f"unknown {row['unknown_seconds']} s")
    if row["at_most_seconds"]:
        parts.append(f"at most {row['at_most_seconds']} s of it")
    if row["interruptions"]:
        parts.append(
            f"interruptions {row['interruptions']}, longest {row['longest_seconds']} s"
        )
    if row["down_now"]:
        parts.append(f"down now {row['down_now']}")
    return "; ".join(parts)


COMMANDS: Mapping[str, Callable[[Story, Words], None]] = {
    "policy": policy,
    "listen": listen,
    "silence": silence,
    "get": get,
    "own": own,
    "run": run,
    "crash": crash,
    "restart": restart,
    "fault": fault,
    "see": see,
    "explain": explain,
    "operations": operations,
    "vms": vms,
    "history": history,
    "availability": availability,
    **dict.fromkeys(ORDERS, order),
    "approve": approve,
}
"""Every command but `fleet`, which has a body."""

WITHOUT_SERVICE = frozenset({"policy", "listen", "silence", "restart", "fault"})
"""The commands that a story can use while the service is down."""


def carry_out(story: Story, block: Block) -> str:
    """Carry out the commands of a block; return the reported lines."""
    first = Words(block.commands[0], story.names)
    if first.name == "fleet":
        _one(story, first, lambda: fleet(story, first, block.commands[1:]))
        return story.told()
    for line in block.commands:
        arguments = Words(line, story.names)
        command = COMMANDS.get(arguments.name)
        if command is None:
            raise arguments.error(f"there is no command {arguments.name}")
        _one(story, arguments, lambda c=command, w=arguments: c(story, w))
    return story.told()


def _one(story: Story, words: Words, step: Callable[[], None]) -> None:
    if story.is_down and words.name not in WITHOUT_SERVICE:
        raise words.error("the service is down: `restart` comes first")
    story.attempt(step)


def play(
    text: str,
    *,
    name: str,
    directory: Path | None = None,
    store: Callable[[], Store] | None = None,
) -> str:
    """Return the transcript `text` as it is when it is played now.

    `directory` has the fleets that it names; `store` opens the store. Raises
    TranscriptError for an invalid command.
    """
    story = Story(directory=directory, store=store)
    return replay(text, lambda block: carry_out(story, block), name=name)
