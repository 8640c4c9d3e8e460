"""The forms of values that only scenario files have.

All readers raise ValueError with a message.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from forewarn.instants import SECOND, Micros, parse_duration
from forewarn.problems import quoted
from forewarn.protocol.errors import ForewarnError
from forewarn.protocol.events import DURATION_UNKNOWN
from forewarn.settings import forms
from forewarn.settings.forms import Form, Option
from forewarn.sim.faults import syntax
from forewarn.sim.scenario.model import Alias

NAMES_MAX = 1_000
"""Maximum number of names in a step: the limit of one request."""

COMES_BACK: Micros = 15 * SECOND
"""Default time for a client to ask again after its event is removed. A client that polls
once a second has many chances."""


def _name(option: Option, value: object) -> str:
    name = forms.line(option, value)
    if len(name.split()) != 1 or name != name.strip():
        raise ValueError(f"{quoted(name)} is not one word")
    return name


def _names(option: Option, value: object) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not names:
        raise ValueError(f"must be {option.form.expected}")
    listed = tuple(_name(option, name) for name in cast("list[object]", names))
    if len(listed) > option.most:
        raise ValueError(
            "takes only one name"
            if option.most == 1
            else f"must have at most {option.most} names"
        )
    twice = next((name for name in listed if listed.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"names {quoted(twice)} twice")
    return listed


def _all_or_names(option: Option, value: object) -> tuple[str, ...]:
    return () if value is True else _names(option, value)


def _delay(_option: Option, value: object) -> Micros:
    if isinstance(value, str) and value.startswith("+"):
        return parse_duration(value[1:])
    raise ValueError('must be a time from now on, such as "+30m"')


def _seconds(option: Option, value: object) -> int:
    if type(value) is int and value == DURATION_UNKNOWN:
        return DURATION_UNKNOWN
    duration = cast("Micros", forms.duration(option, value))
    if duration % SECOND:
        raise ValueError("must be whole seconds")
    return duration // SECOND


def _yes(_option: Option, value: object) -> bool:
    if value is not True:
        raise ValueError("must be true; remove it otherwise")
    return True


def _yes_or_duration(option: Option, value: object) -> Micros | None:
    if value is True:
        return COMES_BACK
    if not isinstance(value, str):
        raise ValueError('must be true, or a duration such as "30s"')  # noqa: TRY004
    if not (duration := forms.duration(option, value)):
        raise ValueError("must be longer than 0")
    return duration


def _faults(option: Option, value: object) -> str:
    line = forms.line(option, value)
    try:
        syntax.parse_playbook(line)
    except ForewarnError as error:
        raise ValueError(error.message) from error
    return line


def _aliases(option: Option, value: object) -> tuple[Alias, ...]:
    if not isinstance(value, list):
        raise ValueError('must be a list such as ["Live Migration"]')  # noqa: TRY004
    aliases: list[Alias] = []
    number = replace(option, form=Forms.NUMBER)
    for item in cast("list[Any]", value):
        is_table = isinstance(item, dict)
        table = cast("dict[str, Any]", item if is_table else {"name": item})
        if "name" not in table or table.keys() - {"name", "speed"}:
            raise ValueError("an alias is a string, or a table of `name` and `speed`")
        speed = table.get("speed")
        aliases.append(
            Alias(
                name=forms.line(option, table["name"]),
                speed=None if speed is None else forms.from_toml(number, speed),
            )
        )
    return tuple(aliases)


def _lines(option: Option, value: object) -> tuple[str, ...]:
    return forms.texts(option, [value] if isinstance(value, str) else value)


_NAMES = 'a name or a list of names such as ["web_0"]'


class Forms(forms.Forms):
    """The forms of a scenario file."""

    ANY = Form(expected="anything", read=lambda _option, value: value)
    """Any value; another reader checks it."""
    NAME = Form(expected="one word", read=_name)
    EVENT = Form(expected="the name of an event", read=_name)
    VMS = Form(expected=_NAMES, read=_names, metavar="vm")
    HOSTS = Form(expected=_NAMES, read=_names, metavar="host")
    TARGETS = Form(expected=_NAMES, read=_names, metavar="host or vm")
    SCOPES = Form(expected=_NAMES, read=_names, metavar="scope")
    LINES = Form(expected="a string or a list of strings", read=_lines)
    ALL_OR_VMS = Form(expected=_NAMES, read=_all_or_names, metavar="vm")
    DELAY = Form(expected="a time from now on", read=_delay)
    SECONDS = Form(expected="whole seconds", read=_seconds)
    YES = Form(expected="true", read=_yes)
    YES_OR_DURATION = Form(expected="true, or a duration", read=_yes_or_duration)
    FAULTS = Form(expected="faults", read=_faults)
    ALIASES = Form(expected="a list of names", read=_aliases)


VMS = Option(form=Forms.VMS, most=NAMES_MAX)
HOSTS = Option(form=Forms.HOSTS, most=NAMES_MAX)
ALL_OR_VMS = Option(form=Forms.ALL_OR_VMS, most=NAMES_MAX)
YES = Option(form=Forms.YES)
SWITCH = Option(form=Forms.SWITCH)
DURATION = Option(form=Forms.DURATION)
EVENT = Option(form=Forms.EVENT)
TEXT = Option(form=Forms.TEXT)
ANY_TEXT = Option(form=Forms.TEXT, may_be_empty=True)
