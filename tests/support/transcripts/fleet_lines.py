"""A fleet in few words: lines such as `+ vm web_0 host=h1 scope=web`.

`+` adds an object with its keys, `~` changes keys (`key=` takes one away), `-`
takes the object away. The result is an ordinary fleet file.
"""

import shlex
from collections.abc import Mapping
from typing import Any

from forewarn import toml
from forewarn.sim import fleets
from forewarn.sim.fleets import KINDS, Tables
from tests.support.transcripts.form import TranscriptError


def read(text: str) -> Tables:
    """Return the tables of a fleet file; raises TranscriptError."""
    try:
        return fleets.read(text)
    except ValueError as error:
        raise TranscriptError(f"this is not TOML: {error}") from error


def edit(tables: Mapping[str, Mapping[str, dict[str, Any]]], line: str) -> Tables:
    """Return the tables after one line of an author."""
    edited: Tables = {kind: dict(tables.get(kind, {})) for kind in KINDS}
    try:
        sign, kind, name, *pairs = shlex.split(line)
    except ValueError:
        sign = kind = name = ""
        pairs = []
    if sign not in {"+", "~", "-"} or kind not in KINDS:
        raise TranscriptError(f"not a line of a fleet: {line!r}")
    objects = edited[kind]
    if (name in objects) is (sign == "+"):
        known = "no" if name not in objects else "already a"
        raise TranscriptError(f"there is {known} {kind} {name}")
    if sign == "-":
        del objects[name]
        return edited
    values = dict(objects.get(name, {"name": name}))
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise TranscriptError(f"{pair!r} is not key=value")
        if value:
            values[key] = _value(value)
        else:
            values.pop(key, None)
    objects[name] = values
    return edited


def _value(text: str) -> object:
    """Return what TOML makes of it; plain words are texts."""
    try:
        return toml.loads(f"value = {text}")["value"]
    except ValueError:
        return text
