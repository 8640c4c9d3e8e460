"""One file with a page of the console: its modules, its style and its data.

It needs no service and loads nothing, so it can be sent and kept. A browser does not load
modules from a file, so they are joined into one script here. The policy of the file names
the digests of the script and the style, and allows nothing else.
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from html import escape
from typing import Any

from forewarn.console.assets import read_assets
from forewarn.console.modules import AGAIN, IMPORT, ordered, resolved

DATA_ID = "sheet-data"
"""The element with the data, as JSON; the module below reads it."""

_SHOWING = "js/still.js"
"""The module that shows a view of the data."""

_LIST = re.compile(r"export\s*\{(?P<names>[^}]*)\};")
_DECLARED = re.compile(
    r"^export\s+(?P<words>(?:const|class|function\*?|async function)\s+(?P<name>\w+))",
    re.MULTILINE,
)

_POLICY = (
    "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; "
    "img-src data:; base-uri 'none'; form-action 'none'; "
    "require-trusted-types-for 'script'; trusted-types lit-html"
)


def single_page(title: str, *, module: str, view: str, data: Any) -> str:
    """Return a file that shows the template `view(data)` of a module, such as `js/paper.js`."""
    assets = read_assets()
    sources = assets.sources
    names = {
        name: f"module{number}"
        for number, name in enumerate(ordered(sources, module, _SHOWING))
    }
    parts = [f'const {names[name]} = (() => {{\n"use strict";' for name in names]
    body = "\n".join(
        f"{begin}\n{_joined(sources[name], name, names)}}})();"
        for begin, name in zip(parts, names, strict=True)
    )
    start = f"{names[_SHOWING]}.show({names[module]}.{view});"
    script = f"{body}\n{start}\n"
    style = assets.style
    assert "</script" not in script, "the script would end there"
    assert "</style" not in style, "the style would end there"
    policy = _POLICY.format(script=_digest(script), style=_digest(style))
    text = json.dumps(data, ensure_ascii=True).replace("<", "\\u003c")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        '<main id="m"></main>\n'
        f'<script type="application/json" id="{DATA_ID}">{text}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


def _joined(source: str, name: str, names: Mapping[str, str]) -> str:
    """Return the body of a function that returns what a module exports."""
    exported: list[str] = []

    def imported(found: re.Match[str]) -> str:
        of = names[resolved(name, found["path"])]
        if found["whole"]:
            return f"const {found['whole']} = {of};"
        return f"const {{{_pairs(found['names'], is_export=False)}}} = {of};"

    def again(found: re.Match[str]) -> str:
        of = names[resolved(name, found["path"])]
        exported.extend(
            f"{part.strip()}: {of}.{part.strip()}" for part in found["names"].split(",")
        )
        return ""

    def listed(found: re.Match[str]) -> str:
        exported.append(_pairs(found["names"], is_export=True))
        return ""

    def declared(found: re.Match[str]) -> str:
        exported.append(found["name"])
        return found["words"]

    text = IMPORT.sub(imported, source)
    text = AGAIN.sub(again, text)
    text = _LIST.sub(listed, text)
    text = _DECLARED.sub(declared, text)
    return f"{text}\nreturn {{{', '.join(exported)}}};\n"


def _pairs(names: str, *, is_export: bool) -> str:
    """Return the names of a list, such as `a as b`, as members of an object."""
    lines: list[str] = []
    for name in filter(None, (part.strip() for part in names.split(","))):
        inner, _, outer = name.partition(" as ")
        pair = (outer or inner, inner) if is_export else (inner, outer or inner)
        lines.append(f"{pair[0]}: {pair[1]}")
    return ", ".join(lines)
