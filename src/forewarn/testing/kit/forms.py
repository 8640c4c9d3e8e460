"""The forms of what a test says of its world, so that a slip is told in a sentence.

Only the form is known here: which numbers and names there are, others know.
"""

import reprlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

from forewarn.protocol.errors import RefusedError
from forewarn.testing.kit.durations import is_number


def check(said: Mapping[str, object]) -> None:
    """Raise RefusedError for the first value that has not the form of its name."""
    for name, value in said.items():
        is_right, form = _FORMS[name]
        if not is_right(value):
            raise RefusedError(f"{name} must be {form}, not {reprlib.repr(value)}")


def _whole(value: object) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool))


def _positive(value: object) -> bool:
    if value is None:
        return True
    # A whole number may be greater than every float, and is then no speed either.
    return is_number(value) and 0 < cast("float", value) <= sys.float_info.max


def _switch(value: object) -> bool:
    return isinstance(value, bool)


def _texts(value: object) -> bool:
    if value is None:
        return True
    if not isinstance(value, Mapping):
        return False
    members = cast("Mapping[object, object]", value)
    return all(isinstance(each, str) for pair in members.items() for each in pair)


def _text_or_path(value: object) -> bool:
    return isinstance(value, str | Path)


_FORMS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "vms": (_whole, "a whole number"),
    "together": (_switch, "True or False"),
    "fleet": (_text_or_path, "the text of a fleet file, or a Path"),
    "clock": (lambda value: isinstance(value, str), "a text"),
    "speed": (_positive, "a number above 0"),
    "settings": (_texts, 'a dictionary of texts, such as {"timing.recovery": "60s"}'),
    "profile": (lambda value: isinstance(value, str), "a text"),
    "enabled": (lambda value: value is None or _switch(value), "True or False"),
    "seed": (_whole, "a whole number"),
    "faults": (_text_or_path, "a line of faults, or the Path of a faults file"),
    "scenario": (_text_or_path, "a scenario's name, or the Path of its file"),
}
