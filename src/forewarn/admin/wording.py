"""What is wrong with a request, in this project's words.

The framework's checks find the place and the kind of fault; its own sentences are
for who writes models, and change with its version. It knows no request.
"""

from collections.abc import Callable, Mapping
from typing import Any

Details = Mapping[str, Any]
"""What the check says of a fault: bounds, or what would be right."""

_OTHERWISE = "is not what is expected here"
"""For a kind of fault that no model of ours had before."""


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _not_json(details: Details) -> str:
    return (
        f"this is not JSON: {str(details['error'])[:1].lower()}{details['error'][1:]}"
    )


_SENTENCES: Mapping[str, Callable[[Details], str]] = {
    "missing": lambda _: "is needed",
    "extra_forbidden": lambda _: "there is no such field here",
    "too_short": lambda d: f"name at least {_plural(d['min_length'], 'thing')}",
    "too_long": lambda d: f"at most {_plural(d['max_length'], 'thing')} may be named",
    "string_too_short": lambda _: "must not be empty",
    "string_too_long": lambda d: (
        f"must have at most {_plural(d['max_length'], 'character')}"
    ),
    "string_type": lambda _: "must be a text",
    "list_type": lambda _: "must be a list",
    "int_type": lambda _: "must be a whole number",
    "int_parsing": lambda _: "must be a whole number",
    "int_parsing_size": lambda _: "is too long for a number",
    "int_from_float": lambda _: "must be a whole number",
    "bool_type": lambda _: "must be true or false",
    "bool_parsing": lambda _: "must be true or false",
    "greater_than_equal": lambda d: f"must be at least {d['ge']}",
    "less_than_equal": lambda d: f"must be at most {d['le']}",
    "literal_error": lambda d: f"must be {_choices(d)}",
    "enum": lambda d: f"must be {_choices(d)}",
    "value_error": lambda d: str(d["error"]),
    "json_invalid": _not_json,
    "model_attributes_type": lambda _: "must be a JSON object",
    "model_type": lambda _: "must be a JSON object",
    "dict_type": lambda _: "must be a JSON object",
}


def _choices(details: Details) -> str:
    # The check writes them as 'freeze', 'reboot' or 'redeploy'.
    return str(details["expected"]).replace("'", "")


def sentence(fault: Mapping[str, Any]) -> str:
    """Return what is wrong, to be read after the name of its place.

    `fault` is one of the framework's, with `type` and `ctx`.
    """
    word = _SENTENCES.get(fault["type"])
    return word(fault.get("ctx", {})) if word else _OTHERWISE


def place(fault: Mapping[str, Any]) -> str:
    """Return where it is wrong: `vms.0`; empty for the request as a whole."""
    if fault["type"] == "json_invalid":
        return ""
    # The first part says body or query, which the caller knows.
    return ".".join(str(part) for part in fault["loc"][1:])
