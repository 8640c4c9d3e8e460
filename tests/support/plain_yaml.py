"""Read the YAML of the recipes: only mappings, lists and unquoted or JSON values.

Other syntax is refused, so that the recipes stay readable. No other test needs a YAML
reader, so the tests have no dependency for it.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

_KEY = re.compile(r"([A-Za-z_][\w./-]*):(?: +(.*))?$")
_PLAIN = re.compile(r"[\w./:$@-][\w./:$@ -]*$")


class PlainYamlError(ValueError):
    """The text has YAML syntax that this reader does not accept."""


@dataclass
class _Line:
    number: int
    indent: int
    text: str


def read(text: str) -> Any:
    """Return the value of a recipe; raises PlainYamlError."""
    lines = [
        _Line(number, len(line) - len(line.lstrip(" ")), line.strip())
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not line.strip().startswith("#")
    ]
    value, rest = _block(lines, lines[0].indent if lines else 0)
    if rest:
        raise _error(rest[0], "is indented differently from the lines above it")
    return value


def _block(lines: list[_Line], indent: int) -> tuple[Any, list[_Line]]:
    if lines and lines[0].text.startswith("- "):
        return _list(lines, indent)
    return _mapping(lines, indent)


def _list(lines: list[_Line], indent: int) -> tuple[list[Any], list[_Line]]:
    values: list[Any] = []
    while lines and lines[0].indent == indent and lines[0].text.startswith("- "):
        first, *rest = lines
        inner = _Line(first.number, indent + 2, first.text[2:].strip())
        if _KEY.match(inner.text):
            value, lines = _mapping([inner, *rest], indent + 2)
        else:
            value, lines = _value(inner), rest
        values.append(value)
    return values, lines


def _mapping(lines: list[_Line], indent: int) -> tuple[dict[str, Any], list[_Line]]:
    mapping: dict[str, Any] = {}
    while lines and lines[0].indent == indent:
        line, *lines = lines
        match = _KEY.match(line.text)
        if match is None:
            raise _error(line, "is not a key with a value")
        key, text = match[1], match[2]
        if key in mapping:
            raise _error(line, f"has the key {key} again")
        if text:
            mapping[key] = _value(_Line(line.number, indent, text))
        elif lines and lines[0].indent > indent:
            mapping[key], lines = _block(lines, lines[0].indent)
        else:
            raise _error(line, "has no value")
    return mapping, lines


def _value(line: _Line) -> Any:
    text = line.text
    if text == "{}":
        return {}
    if text[0] in '["':
        try:
            return json.loads(text)
        except ValueError:
            raise _error(line, "is not a JSON list or a JSON string") from None
    if text in {"true", "false"}:
        return text == "true"
    if text.isdecimal():
        return int(text)
    if not _PLAIN.match(text) or ": " in text:
        raise _error(line, "must be in quotes")
    return text


def _error(line: _Line, message: str) -> PlainYamlError:
    return PlainYamlError(f"line {line.number}: {line.text!r} {message}")
