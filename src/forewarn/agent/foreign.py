"""JSON of other programs, read without trust: what is of another form is empty."""

from __future__ import annotations

from typing import Any, cast


def members(value: object) -> dict[str, Any]:
    """Return what an object has; nothing where the value is none."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    """Return what a list has; nothing where the value is none."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def objects(value: object) -> list[dict[str, Any]]:
    """Return the objects of a list, empty where one of them is none."""
    return [members(each) for each in items(value)]
