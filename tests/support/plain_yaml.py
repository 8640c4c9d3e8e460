"""Reads the YAML of our own recipes: mappings, lists and plain values, nothing more.

Whatever else somebody writes into them is refused, so that they stay as plain as
they are. It stands in for a YAML reader that nothing else here needs.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

_KEY = re.compile(r"([A-Za-z_][\w./-]*):(?: +(.*))?$")
_PLAIN = re.compile(r"[\w./:$@-][\w./:$@ -]*$")


class PlainYamlError(ValueError):
    """The text is not as plain as it should be."""


@dataclass
class _Line:
    number: int
    indent: int
    text: str


def read(text: str) -> Any:
    """Return what a recipe says; raises PlainYamlError."""
    lines = [
        _Line(number, len(line) - len(line.lstrip(" ")), line.strip())
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not line.strip().startswith("#")
    ]
    value, rest = _block(lines, lines[0].indent if lines else 0)
    if rest:
        raise _error(rest[0], "is indented otherwise than what stands above it")
    return value


def _block(lines: list[_Line], indent: int) -> tuple[Any, list[_Line]]:
    if lines and lines[0].text.startswith("- "):
        return _list(lines, indent)
    return _mapping(lines, indent)


def _list(lines: list[_Line], indent: int) -> tuple[list[Any], list[_Line]]:
    found: list[Any] = []
    while lines and lines[0].indent == indent and lines[0].text.startswith("- "):
        first, *rest = lines
        inner = _Line(first.number, indent + 2, first.text[2:].strip())
        if _KEY.match(inner.text):
            value, lines = _mapping([inner, *rest], indent + 2)
        else:
            value, lines = _value(inner), rest
        found.append(value)
    return found, lines


def _mapping(lines: list[_Line], indent: int) -> tuple[dict[str, Any], list[_Line]]:
    found: dict[str, Any] = {}
    while lines and lines[0].indent == indent:
        line, *lines = lines
        match = _KEY.match(line.text)
        if match is None:
            raise _error(line, "is no key with its value")
        key, text = match[1], match[2]
        if key in found:
            raise _error(line, f"says {key} again")
        if text:
            found[key] = _value(_Line(line.number, indent, text))
        elif lines and lines[0].indent > indent:
            found[key], lines = _block(lines, lines[0].indent)
        else:
            raise _error(line, "has no value")
    return found, lines


def _value(line: _Line) -> Any:
    text = line.text
    if text == "{}":
        return {}
    if text[0] in '["':
        try:
            return json.loads(text)
        except ValueError:
            raise _error(line, "is no list or text as JSON has it") from None
    if text in {"true", "false"}:
        return text == "true"
    if text.isdecimal():
        return int(text)
    if not _PLAIN.match(text) or ": " in text:
        raise _error(line, "should stand in quotes")
    return text


def _error(line: _Line, message: str) -> PlainYamlError:
    return PlainYamlError(f"line {line.number}: {line.text!r} {message}")
