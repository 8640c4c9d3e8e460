"""The syntax of faults in one line: `500 x2`, `delay 3s`, `429 retry-after 5`, `500, ok, loop`.

A line is parsed into the keys of a faults file, so both have the same meaning. `fault_of`
makes a fault from keys and values.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from forewarn.instants import SECOND, Micros, format_duration, parse_duration
from forewarn.problems import did_you_mean, quoted
from forewarn.settings.forms import Form, Forms, Option, from_text
from forewarn.sim.faults.fault import (
    ALIASES,
    ANY,
    FAULTS,
    GET,
    POST,
    STEPS_MAX,
    TIMES_MAX,
    Approval,
    Fault,
    FaultError,
    Kind,
    Playbook,
    Where,
)

Fields: TypeAlias = dict[str, Any]
"""Values of a fault, by key."""

DELAY_MAX = 3600 * SECOND
"""Maximum delay of an answer, longer than any client waits. Use `timeout` instead."""

SIZE_MAX = 1 << 20
"""Maximum number of bytes: more than any answer has."""

BACK_MAX = 8
"""Maximum number of older documents of a VM, for `stale`."""

COUNT_MAX = 1_000_000_000
"""Maximum incarnation: every client can read it as an integer."""

RETRY_AFTER_MAX = 86_400
"""Maximum seconds of Retry-After: a day, beyond any notice."""

FORM = "use KIND [ARGUMENT] [xN] [get|post|any] [lost|taken] …, such as '500 x2'"

_TIMES = re.compile(r"x([0-9]+)")
_RATE = re.compile(r"([0-9]+)/(.*)")

_FLAGS: Mapping[str, tuple[str, str]] = {
    "get": ("method", "get"),
    "post": ("method", "post"),
    "any": ("method", "any"),
    "lost": ("approval", "lost"),
    "taken": ("approval", "taken"),
    "flapping": ("flapping", "true"),
}
"""Keywords without a value: the key and value of each."""

_PAIRS: Mapping[str, str] = {
    "retry-after": "retry_after",
    "after": "after",
    "for": "for",
    "on": "on",
}
"""Keywords with a value: the key of each."""

METHODS: Mapping[str, frozenset[str]] = {
    "get": frozenset({GET}),
    "post": frozenset({POST}),
    "any": ANY,
}


def parse_fault(text: str, *, once: bool = False) -> Fault:
    """Parse one fault; raises FaultError.

    With `once`, a fault without a count or a duration hits one request, as a step of a
    playbook does.
    """
    options = _read(text)
    if options["kind"] == "replace":
        raise FaultError(
            '"replace" is only valid in a faults file, which has the answer',
            key="kind",
        )
    try:
        return _build(options, once=once)
    except FaultError as error:
        # For a file, the key identifies the place. For a line, show the whole line.
        raise FaultError(
            f"{quoted(text)}: {error.key} {error.message}", key=error.key
        ) from None


def parse_playbook(text: str, *, vms: Sequence[str] = ()) -> Playbook:
    """Parse a playbook in one line; raises FaultError.

    A single fault lasts until it is cleared. Steps separated by commas hit one request
    each. `loop` as the last step restarts the playbook.
    """
    steps = [part.strip() for part in text.split(",")]
    loops = len(steps) > 1 and steps[-1] == "loop"
    return playbook(steps[: len(steps) - loops], vms=vms, loops=loops)


def playbook(
    texts: Sequence[str], *, vms: Sequence[str] = (), loops: bool = False
) -> Playbook:
    """Return a playbook with these steps; raises FaultError."""
    if not texts:
        raise FaultError("a playbook must have at least one step", key="playbook")
    if len(texts) > STEPS_MAX:
        raise FaultError(
            f"a playbook must have at most {STEPS_MAX} steps", key="playbook"
        )
    several = len(texts) > 1 or loops
    return Playbook(
        steps=tuple(parse_fault(text, once=several) for text in texts),
        vms=tuple(vms),
        loops=loops,
    )


def _read(text: str) -> dict[str, str]:
    """Split a line into keys and texts; raises FaultError."""
    parts = text.split()
    if not parts:
        raise FaultError(f"a fault is missing: {FORM}", key="kind")
    kind = find(parts[0])
    options = {"kind": kind.name}
    rest = iter(parts[1:])
    for at, word in enumerate(rest):
        if match := _TIMES.fullmatch(word):
            key, value = "times", match[1]
        elif word in _FLAGS:
            key, value = _FLAGS[word]
        elif word in _PAIRS:
            key, value = _PAIRS[word], next(rest, "")
            if not value:
                raise FaultError(f"{quoted(word)} needs a value after it", key=key)
        elif at == 0 and kind.argument is not None:
            key, value = kind.argument.key, word
        else:
            near = did_you_mean(word, [*_FLAGS, *_PAIRS])
            raise FaultError(
                f"{quoted(word)} is not valid in a fault of kind {kind.name}{near}: "
                f"{FORM}",
                key="kind",
            )
        if key in options:
            raise FaultError(f"{quoted(word)} sets {key} a second time", key=key)
        options[key] = value
    return options


def find(name: str) -> Kind:
    """Return the kind with this name or alias; raises FaultError."""
    kind = FAULTS.get(ALIASES.get(name, name))
    if kind is None:
        near = did_you_mean(name, [*FAULTS, *ALIASES])
        raise FaultError(f"{quoted(name)} is not a kind of fault{near}", key="kind")
    return kind


def _build(given: Mapping[str, str], *, once: bool) -> Fault:
    options = {"kind": Option(form=Forms.LINE), **options_of(FAULTS[given["kind"]])}
    values: Fields = {}
    for key, text in given.items():
        if key not in options:
            near, kind = did_you_mean(key, options), quoted(given["kind"])
            raise FaultError(f"is not valid for {kind}{near}", key=key)
        try:
            values[key] = from_text(options[key], text)
        except ValueError as error:
            raise FaultError(str(error), key=key) from None
    return fault_of(values, once=once)


def fault_of(values: Mapping[str, Any], *, once: bool = False) -> Fault:
    """Return the fault with these keys and values; raises FaultError with the key."""
    kind = find(values["kind"])
    argument = kind.argument
    if argument and argument.required and argument.key not in values:
        example = f"{kind.name} {argument.example}"
        raise FaultError(f"is missing: use {example}", key=argument.key)
    methods = METHODS[values["method"]] if "method" in values else frozenset[str]()
    if kind.reads_only and POST in methods:
        raise FaultError(
            f"{quoted(kind.name)} is for GET only: a POST has no document", key="method"
        )
    approval = Approval(values["approval"]) if "approval" in values else None
    if approval and approval not in kind.approvals:
        other = kind.approvals[0].value
        raise FaultError(f"of {quoted(kind.name)} is always {other}", key="approval")
    size, pause = values.get("rate", (values.get("bytes"), 0))
    times, lasts = values.get("times"), values.get("for")
    return Fault(
        kind=kind.name,
        times=1 if once and times is None and lasts is None else times,
        methods=methods,
        where=Where(values.get("on", Where.EVENTS)),
        approval=approval,
        flapping=values.get("flapping", False),
        after=values.get("after", 0),
        lasts=lasts,
        delay=values.get("by", 0),
        size=size,
        pause=pause,
        count=values.get("back", values.get("incarnation", 1)),
        retry_after=values.get("retry_after"),
    )


def options_of(kind: Kind) -> dict[str, Option]:
    """Return the keys of a fault of this kind, except `kind`."""
    keys = ["times", "method", "on", "flapping", "after", "for"]
    if kind.argument is not None:
        keys.insert(0, kind.argument.key)
    if kind.approvals:
        keys.append("approval")
    if kind.retry_after is not None:
        keys.append("retry_after")
    return {key: KEYS[key] for key in keys}


def words(fault: Fault) -> str:
    """Return a line that `parse_fault` can read. A replacement, which it cannot read, is
    only named.
    """
    kind = fault.what
    parts = [kind.name]
    if kind.argument is not None:
        parts += _argument(kind, fault)
    if fault.retry_after is not None:
        parts.append(f"retry-after {fault.retry_after}")
    if fault.times is not None:
        parts.append(f"x{fault.times}")
    parts += [word for word, methods in METHODS.items() if methods == fault.methods]
    if fault.approval is not None:
        parts.append(fault.approval.value)
    if fault.where is not Where.EVENTS:
        parts.append(f"on {fault.where.value}")
    if fault.flapping:
        parts.append("flapping")
    if fault.after:
        parts.append(f"after {format_duration(fault.after)}")
    if fault.lasts is not None:
        parts.append(f"for {format_duration(fault.lasts)}")
    return " ".join(parts)


def _argument(kind: Kind, fault: Fault) -> list[str]:
    if kind.name in {"stale", "incarnation-reset"}:
        return [] if fault.count == 1 else [str(fault.count)]
    return {
        "delay": [format_duration(fault.delay)],
        "slow": [f"{fault.size}/{format_duration(fault.pause)}"],
        "reset": [] if fault.size is None else [str(fault.size)],
    }[kind.name]


def _span(_option: Option, value: object) -> Micros:
    span = parse_duration(str(value))
    if not span:
        raise ValueError("must be longer than 0")
    return span


def _short(option: Option, value: object) -> Micros:
    span = _span(option, value)
    if span > DELAY_MAX:
        raise ValueError("must be at most an hour; use `timeout` for no answer")
    return span


def _rate(option: Option, value: object) -> tuple[int, Micros]:
    match = _RATE.fullmatch(str(value))
    if match is None:
        raise ValueError(
            f"must be bytes per time, such as 10/s, not {quoted(str(value))}"
        )
    unit = match[2]
    # `10/s` means `10/1s`.
    is_whole = unit[:1].isdigit() or unit[:1] == "P"
    return from_text(_SIZE, match[1]), _short(option, unit if is_whole else f"1{unit}")


_SPAN = Option(form=Form(expected="a duration", read=_span))
_SIZE = Option(form=Forms.COUNT, least=1, most=SIZE_MAX)

KEYS: Mapping[str, Option] = {
    "by": Option(form=Form(expected="a duration", read=_short)),
    "bytes": Option(form=Forms.COUNT, most=SIZE_MAX),
    "rate": Option(form=Form(expected="bytes per time", read=_rate)),
    "back": Option(form=Forms.COUNT, least=1, most=BACK_MAX),
    "incarnation": Option(form=Forms.COUNT, most=COUNT_MAX),
    "times": Option(form=Forms.COUNT, least=1, most=TIMES_MAX),
    "method": Option(form=Forms.WORD, words=tuple(METHODS)),
    "on": Option(form=Forms.WORD, words=tuple(where.value for where in Where)),
    "approval": Option(
        form=Forms.WORD, words=tuple(approval.value for approval in Approval)
    ),
    "flapping": Option(form=Forms.SWITCH),
    "after": _SPAN,
    "for": _SPAN,
    "retry_after": Option(form=Forms.COUNT, most=RETRY_AFTER_MAX),
}
"""The keys of a fault, except `kind`."""
