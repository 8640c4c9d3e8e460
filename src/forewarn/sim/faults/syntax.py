"""Faults on one line: `500 x2`, `delay 3s`, `429 retry-after 5`, `500, ok, loop`.

A line is read into the keys of the file form, so that both have one meaning:
`build` makes the fault of keys and texts.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from forewarn.instants import SECOND, Micros, format_duration, parse_duration
from forewarn.problems import did_you_mean, quoted
from forewarn.sim.faults.errors import FaultError
from forewarn.sim.faults.fault import (
    STEPS_MAX,
    TIMES_MAX,
    Fault,
    Playbook,
    Where,
)
from forewarn.sim.faults.kinds import (
    ALIASES,
    ANY,
    FAULTS,
    GET,
    POST,
    Approval,
    Kind,
)

Fields: TypeAlias = dict[str, Any]
"""Fields of a Fault, by name."""

DELAY_MAX = 3600 * SECOND
"""Of one answer: longer than any client waits; `timeout` is meant."""

SIZE_MAX = 1 << 20
"""Bytes: more than any answer has."""

BACK_MAX = 8
"""Documents of a VM that are remembered for `stale`."""

COUNT_MAX = 1_000_000_000
"""Greatest incarnation: within what every client reads as an integer."""

RETRY_AFTER_MAX = 86_400
"""Seconds: a day, beyond any notice."""

FORM = "write KIND [ARGUMENT] [xN] [get|post|any] [lost|taken] …, such as '500 x2'"

_TIMES = re.compile(r"x([0-9]+)")
_RATE = re.compile(r"([0-9]+)/(.*)")
_NUMBER = re.compile(r"[0-9]{1,10}", re.ASCII)

_FLAGS: Mapping[str, tuple[str, str]] = {
    "get": ("method", "get"),
    "post": ("method", "post"),
    "any": ("method", "any"),
    "lost": ("approval", "lost"),
    "taken": ("approval", "taken"),
    "flapping": ("flapping", "true"),
}
"""Words that say all by themselves: the key and the value that they mean."""

_PAIRS: Mapping[str, str] = {
    "retry-after": "retry_after",
    "after": "after",
    "for": "for",
    "on": "on",
}
"""Words that are followed by what they are about, and the key that they mean."""

METHODS: Mapping[str, frozenset[str]] = {
    "get": frozenset({GET}),
    "post": frozenset({POST}),
    "any": ANY,
}


def parse_fault(text: str, *, once: bool = False) -> Fault:
    """Return the fault that one line writes; raises FaultError.

    `once` is for a step of a playbook: it hits one request unless it says how many,
    or for how long.
    """
    given = read(text)
    if given["kind"] == "replace":
        raise FaultError(
            '"replace" is for a file of faults, where it says what is answered',
            key="kind",
        )
    try:
        return build(given, once=once)
    except FaultError as error:
        # A file names the key at fault; a line has words, and is told as a whole.
        raise FaultError(
            f"{quoted(text)}: {error.key} {error.message}", key=error.key
        ) from None


def parse_playbook(text: str, *, vms: Sequence[str] = ()) -> Playbook:
    """Return the playbook that one line writes; raises FaultError.

    One fault lasts until it is cleared; steps between commas hit one request each,
    and `loop` as the last begins again.
    """
    steps = [part.strip() for part in text.split(",")]
    loops = len(steps) > 1 and steps[-1] == "loop"
    return playbook(steps[: len(steps) - loops], vms=vms, loops=loops)


def playbook(
    texts: Sequence[str], *, vms: Sequence[str] = (), loops: bool = False
) -> Playbook:
    """Return the playbook with these steps; raises FaultError."""
    if not texts:
        raise FaultError("a playbook has at least one step", key="playbook")
    if len(texts) > STEPS_MAX:
        raise FaultError(f"a playbook has at most {STEPS_MAX} steps", key="playbook")
    several = len(texts) > 1 or loops
    return Playbook(
        steps=tuple(parse_fault(text, once=several) for text in texts),
        vms=tuple(vms),
        loops=loops,
    )


def read(text: str) -> dict[str, str]:
    """Return the keys and texts that a line means; raises FaultError."""
    words = text.split()
    if not words:
        raise FaultError(f"a fault is missing: {FORM}", key="kind")
    kind = find(words[0])
    given = {"kind": kind.name}
    rest = iter(words[1:])
    for at, word in enumerate(rest):
        if found := _TIMES.fullmatch(word):
            key, value = "times", found[1]
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
                f"{quoted(word)} does not belong in a fault of kind {kind.name}{near}: "
                f"{FORM}",
                key="kind",
            )
        if key in given:
            raise FaultError(f"{quoted(word)} says {key} a second time", key=key)
        given[key] = value
    return given


def find(name: str) -> Kind:
    """Return the kind with this name, or another word for it; raises FaultError."""
    kind = FAULTS.get(ALIASES.get(name, name))
    if kind is None:
        near = did_you_mean(name, [*FAULTS, *ALIASES])
        raise FaultError(f"{quoted(name)} is no kind of fault{near}", key="kind")
    return kind


def build(given: Mapping[str, str], *, once: bool = False) -> Fault:
    """Return the fault of these keys and texts; raises FaultError with the key."""
    if "kind" not in given:
        raise FaultError("is missing: which fault is it?", key="kind")
    kind = find(given["kind"])
    allowed = keys_of(kind)
    fields: Fields = {}
    for key, text in given.items():
        if key == "kind":
            continue
        if key not in allowed:
            near = did_you_mean(key, allowed)
            raise FaultError(f"does not belong to {quoted(kind.name)}{near}", key=key)
        try:
            fields.update(_READERS[key](kind, text))
        except ValueError as error:
            raise FaultError(str(error), key=key) from None
    if kind.argument and kind.argument.required and kind.argument.key not in given:
        example = f"{kind.name} {kind.argument.example}"
        raise FaultError(f"is missing: write {example}", key=kind.argument.key)
    if once and "times" not in fields and "lasts" not in fields:
        fields["times"] = 1
    return Fault(kind=kind.name, **fields)


def keys_of(kind: Kind) -> list[str]:
    """Return the keys that a fault of this kind may have, beside `kind`."""
    keys = ["times", "method", "on", "flapping", "after", "for"]
    if kind.argument is not None:
        keys.insert(0, kind.argument.key)
    if kind.approvals:
        keys.append("approval")
    if kind.retry_after is not None:
        keys.append("retry_after")
    return keys


def words(fault: Fault) -> str:
    """Return the line that `parse_fault` reads back; a replacement, which it does not
    read, is only named.
    """
    kind = fault.what
    said = [kind.name]
    if kind.argument is not None:
        said += _argument(kind, fault)
    if fault.retry_after is not None:
        said.append(f"retry-after {fault.retry_after}")
    if fault.times is not None:
        said.append(f"x{fault.times}")
    said += [word for word, methods in METHODS.items() if methods == fault.methods]
    if fault.approval is not None:
        said.append(fault.approval.value)
    if fault.where is not Where.EVENTS:
        said.append(f"on {fault.where.value}")
    if fault.flapping:
        said.append("flapping")
    if fault.after:
        said.append(f"after {format_duration(fault.after)}")
    if fault.lasts is not None:
        said.append(f"for {format_duration(fault.lasts)}")
    return " ".join(said)


def _argument(kind: Kind, fault: Fault) -> list[str]:
    match kind.name:
        case "delay":
            return [format_duration(fault.delay)]
        case "slow":
            return [f"{fault.size}/{format_duration(fault.pause)}"]
        case "reset":
            return [] if fault.size is None else [str(fault.size)]
        case _:
            return [] if fault.count == 1 else [str(fault.count)]


def _whole(text: str, *, least: int, most: int) -> int:
    if not _NUMBER.fullmatch(text) or not least <= int(text) <= most:
        raise ValueError(f"must be a whole number from {least} to {most}, not {text!r}")
    return int(text)


def _choice(text: str, choices: Sequence[str]) -> str:
    if text not in choices:
        near = did_you_mean(text, choices)
        raise ValueError(f"must be {' or '.join(choices)}, not {quoted(text)}{near}")
    return text


def _span(text: str) -> Micros:
    span = parse_duration(text)
    if not span:
        raise ValueError("must be longer than nothing")
    return span


def _short(text: str) -> Micros:
    span = _span(text)
    if span > DELAY_MAX:
        raise ValueError("must be an hour at most; timeout never answers")
    return span


def _rate(_kind: Kind, text: str) -> Fields:
    found = _RATE.fullmatch(text)
    if found is None:
        raise ValueError(f"must be bytes for a time, such as 10/s, not {quoted(text)}")
    unit = found[2]
    # `10/s` is what people write for `10/1s`.
    pause = _short(unit if unit[:1].isdigit() or unit[:1] == "P" else f"1{unit}")
    return {"size": _whole(found[1], least=1, most=SIZE_MAX), "pause": pause}


def _method(kind: Kind, text: str) -> Fields:
    methods = METHODS[_choice(text, list(METHODS))]
    if kind.reads_only and POST in methods:
        raise ValueError(f"{quoted(kind.name)} is for GET only: a POST has no document")
    return {"methods": methods}


def _approval(kind: Kind, text: str) -> Fields:
    approval = Approval(_choice(text, [each.value for each in Approval]))
    if approval not in kind.approvals:
        other = kind.approvals[0].value
        raise ValueError(f"of {quoted(kind.name)} is always {other}")
    return {"approval": approval}


def _flapping(_kind: Kind, text: str) -> Fields:
    return {"flapping": _choice(text, ["true", "false"]) == "true"}


_READERS: Mapping[str, Callable[[Kind, str], Fields]] = {
    "by": lambda _, text: {"delay": _short(text)},
    "bytes": lambda _, text: {"size": _whole(text, least=0, most=SIZE_MAX)},
    "rate": _rate,
    "back": lambda _, text: {"count": _whole(text, least=1, most=BACK_MAX)},
    "incarnation": lambda _, text: {"count": _whole(text, least=0, most=COUNT_MAX)},
    "times": lambda _, text: {"times": _whole(text, least=1, most=TIMES_MAX)},
    "method": _method,
    "on": lambda _, text: {"where": Where(_choice(text, [w.value for w in Where]))},
    "approval": _approval,
    "flapping": _flapping,
    "after": lambda _, text: {"after": _span(text)},
    "for": lambda _, text: {"lasts": _span(text)},
    "retry_after": lambda _, text: {
        "retry_after": _whole(text, least=0, most=RETRY_AFTER_MAX)
    },
}
"""How the text of each key is read: into fields of a fault; raises ValueError."""
