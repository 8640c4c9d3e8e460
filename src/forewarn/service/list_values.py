"""Settings that are lists: the operator's programs, names of actions, faults."""

from collections.abc import Sequence
from typing import cast

from forewarn.drivers.faults import parse_fault
from forewarn.drivers.placeholders import words_fault
from forewarn.protocol.operations import Action

WORKS = {action.name.lower(): action for action in Action if action is not Action.NONE}
"""What a driver can be asked to do, by the names that settings have for it."""


def listed(value: object, form: str) -> tuple[str, ...]:
    """Return the words that a file has; raises ValueError with a sentence."""
    found = cast("list[object]", value) if isinstance(value, list) else [None]
    if not all(isinstance(word, str) for word in found):
        raise ValueError(f"must be {form}")
    return tuple(cast("list[str]", found))


def program(words: tuple[str, ...], placeholders: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a program if they can be run; raises ValueError."""
    if fault := words_fault(words, placeholders):
        raise ValueError(fault)
    return words


def actions(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return names of actions if they all are; raises ValueError."""
    for word in words:
        if word not in WORKS:
            raise ValueError(f"{word!r} is none of {', '.join(WORKS)}")
    return words


def faults(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return texts if each of them is a fault; raises ValueError."""
    for text in texts:
        parse_fault(text)
    return texts
