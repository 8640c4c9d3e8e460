"""Messages for invalid requests.

The framework reports the place and the type of an error. Its own sentences address
authors of models, and change with its version.
"""

from collections.abc import Callable, Mapping
from typing import Any

Details = Mapping[str, Any]
"""Parameters of an error, such as bounds."""

_OTHERWISE = "is not valid here"
"""Message for a type of error that is not in the table below."""


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _not_json(details: Details) -> str:
    return (
        f"this is not JSON: {str(details['error'])[:1].lower()}{details['error'][1:]}"
    )


_SENTENCES: Mapping[str, Callable[[Details], str]] = {
    "missing": lambda _: "is needed",
    "extra_forbidden": lambda _: "this field does not exist here",
    "too_short": lambda d: f"must have at least {_plural(d['min_length'], 'item')}",
    "too_long": lambda d: f"must have at most {_plural(d['max_length'], 'item')}",
    "string_too_short": lambda _: "must not be empty",
    "string_too_long": lambda d: (
        f"must have at most {_plural(d['max_length'], 'character')}"
    ),
    "string_pattern_mismatch": lambda d: f"must match {d['pattern']}",
    "string_type": lambda _: "must be a string",
    "list_type": lambda _: "must be a list",
    "int_type": lambda _: "must be a whole number",
    "int_parsing": lambda _: "must be a whole number",
    "int_parsing_size": lambda _: "has too many digits",
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
    # The framework writes them as 'freeze', 'reboot' or 'redeploy'.
    return str(details["expected"]).replace("'", "")


def sentence(fault: Mapping[str, Any]) -> str:
    """Return the error as a sentence that follows the name of its place.

    `fault` is an error of the framework, with `type` and `ctx`.
    """
    word = _SENTENCES.get(fault["type"])
    return word(fault.get("ctx", {})) if word else _OTHERWISE


def place(fault: Mapping[str, Any]) -> str:
    """Return the place of an error, such as `vms.0`; empty for the whole request."""
    if fault["type"] == "json_invalid":
        return ""
    # The first part is body or query, which the caller knows.
    return ".".join(str(part) for part in fault["loc"][1:])
