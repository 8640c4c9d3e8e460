"""The forms of arguments: checks with error messages for test authors.

The annotation of a parameter defines its form; some names have a special form. Other
modules check whether a VM or an event exists.
"""

import reprlib
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, cast, get_args, get_origin

from forewarn.problems import did_you_mean, quoted
from forewarn.protocol.errors import NotFoundError, RefusedError
from forewarn.testing.kit.durations import is_number, micros_of

NAMES_SHOWN = 20
"""Maximum number of names in a message: a usual test has fewer."""


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a value."""

    is_right: Callable[[Any], bool]
    expected: str
    """Description for a message: a value "must be" this."""
    known: tuple[str, ...] = ()
    """The allowed names; empty if any name is allowed."""
    may_be_none: bool = False

    def check(self, name: str, value: object) -> None:
        """Raise RefusedError if `value` does not have this form."""
        if (value is None and self.may_be_none) or self.is_right(value):
            return
        meant = did_you_mean(value, self.known) if isinstance(value, str) else ""
        raise RefusedError(f"{name} must be {self.expected}, not {shown(value)}{meant}")


def form_of(name: str, annotation: Any) -> Form:
    """Return the form of a parameter by its name and its annotation."""
    # `Literal[...] | None` is a typing.Union, not a UnionType.
    is_union = isinstance(annotation, UnionType) or NoneType in get_args(annotation)
    members = frozenset(get_args(annotation) if is_union else (annotation,))
    may_be_none = NoneType in members
    choices = [member for member in members if get_origin(member) is Literal]
    if choices:
        form = _choice(get_args(choices[0]))
    else:
        form = _BY_NAME.get(name) or _BY_TYPE[members - {NoneType}]
    return Form(form.is_right, form.expected, form.known, may_be_none)


def shown(value: object) -> str:
    """Return a value for a message, truncated if it is long."""
    return reprlib.repr(value)


def unknown(noun: str, name: str, known: Collection[str]) -> NotFoundError:
    """Return the error for an unknown name: `there is no VM "web_9"; known: web_0`."""
    meant = did_you_mean(name, known)
    names = ", ".join(islice(known, NAMES_SHOWN)) or "none"
    more = len(known) - NAMES_SHOWN
    rest = f" and {more} more" if more > 0 else ""
    return NotFoundError(
        f"there is no {noun} {quoted(name)}{meant}; known: {names}{rest}"
    )


def alternatives(names: Iterable[str]) -> str:
    """Return names for a message: `"a", "b" or "c"`."""
    all_of = [f'"{name}"' for name in names]
    return " or ".join([", ".join(all_of[:-1]), all_of[-1]] if all_of[1:] else all_of)


def flat(names: Iterable[str | Collection[str]]) -> tuple[str, ...]:
    """Return names that were given as arguments or in lists, in one tuple."""
    return tuple(
        name for item in names for name in ([item] if isinstance(item, str) else item)
    )


def _choice(names: tuple[str, ...]) -> Form:
    return Form(lambda value: value in names, alternatives(names), names)


def is_text(value: object) -> bool:
    """Return whether a value is a string."""
    return isinstance(value, str)


def is_whole(value: object) -> bool:
    """Return whether a value is a whole number; True and False are not."""
    return isinstance(value, int) and not isinstance(value, bool)


def _count(value: object) -> bool:
    return is_whole(value) and cast("int", value) >= 1


def _positive(value: object) -> bool:
    # A whole number can exceed every float, which is not a valid speed either.
    return is_number(value) and 0 < cast("float", value) <= sys.float_info.max


def is_switch(value: object) -> bool:
    """Return whether a value is True or False."""
    return isinstance(value, bool)


def _length(value: object) -> bool:
    try:
        micros_of(cast("float", value))
    except RefusedError:
        return False
    return True


def is_names(value: object) -> bool:
    """Return whether a value is a string or a list of texts."""
    return is_text(value) or _list_of(is_text, value)


def _list_of(is_right: Callable[[object], bool], value: object) -> bool:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Collection):
        return False
    return all(map(is_right, cast("Collection[object]", value)))


def is_texts(value: object) -> bool:
    """Return whether a value is a dictionary with texts as keys and values."""
    if not isinstance(value, Mapping):
        return False
    members = cast("Mapping[object, object]", value)
    return all(isinstance(member, str) for pair in members.items() for member in pair)


def _by_names(value: object) -> bool:
    if not isinstance(value, Mapping):
        return False
    return all(isinstance(name, str) for name in cast("Mapping[object, object]", value))


def _text_or_path(value: object) -> bool:
    return isinstance(value, str | Path)


def is_fault(value: object) -> bool:
    """Return whether a value can be a line of faults: a string, or a status."""
    return is_text(value) or is_whole(value)


LENGTH = Form(_length, 'a length such as "15m", seconds, or a timedelta')

NAMES = Form(is_names, "a name, or a list of names")

_BY_TYPE: Mapping[frozenset[object], Form] = {
    frozenset({str}): Form(is_text, "a string"),
    frozenset({int}): Form(is_whole, "a whole number"),
    frozenset({float}): Form(_positive, "a number above 0"),
    frozenset({bool}): Form(is_switch, "True or False"),
    frozenset({str, float, timedelta}): LENGTH,
    frozenset({str, Path}): Form(_text_or_path, "a string, or a Path"),
    frozenset({str, Collection[str]}): NAMES,
    frozenset({Mapping[str, str]}): Form(
        is_texts, 'a dictionary of texts, such as {"timing.recovery": "60s"}'
    ),
    frozenset({str, int}): Form(is_fault, 'a line of faults, such as "500 x2"'),
    frozenset({Sequence[str | int]}): Form(
        lambda value: _list_of(is_fault, value),
        'a list of faults, such as ["500", "ok"]',
    ),
}
"""The forms by the members of an annotation, without None."""

_BY_NAME: Mapping[str, Form] = {
    "fleet": Form(_text_or_path, "the text of a fleet file, or a Path"),
    "faults": Form(
        lambda value: is_fault(value) or isinstance(value, Path),
        "a line of faults, or the Path of a faults file",
    ),
    "scenario": Form(_text_or_path, "a scenario's name, or the Path of its file"),
    "count": Form(_count, "a whole number from 1 on"),
    "at_least": Form(_count, "a whole number from 1 on"),
    "arguments": Form(_by_names, 'a dictionary, such as {"in": "3d"}'),
    "at_once": Form(_count, "a whole number from 1 on"),
    "duration": Form(
        lambda value: (is_whole(value) and value == -1) or _length(value),
        f"{LENGTH.expected}, or -1 for unknown",
    ),
}
"""The forms of parameters that need more than their annotation."""
