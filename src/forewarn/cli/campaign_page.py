"""The plan of a campaign as an HTML page: hosts over time, and sums.

A page loads nothing and runs no script. Each row is a host, or several neighbors in
the order if there are many.
"""

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from forewarn.cli.client import Json
from forewarn.instants import Micros, format_instant, parse_instant
from forewarn.texts import printable

ROWS_MAX = 400
"""Maximum rows of the picture: more would be thinner than a line of text."""

ROW = 14
"""Height of a row, in pixels."""

WIDTH = 900
"""Width of the time axis, in pixels."""

LEFT = 220
"""Width of the names, in pixels."""

MARKS = 8
"""Number of times on the axis."""

NAME_CHARACTERS = 30
"""Maximum characters of a name in the picture; its title has all."""

_COLORS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#9d755d", "#72b7b2")
"""Colors of the stages, in turn."""

_FAILED = "#c00000"
"""Color of failed hosts."""

STYLE = (
    "body{font:14px system-ui,sans-serif;margin:2em;max-width:75em}"
    "table{border-collapse:collapse}td,th{text-align:left;padding:.2em .8em .2em 0}"
    "svg text{font:10px system-ui,sans-serif}"
)


def page(plan: Json) -> str:
    """Return the page of a plan with its hosts."""
    title = f"Campaign {text(plan['campaign'])}"
    facts = [
        (
            f"{plan['impact']}: {plan['host_count']:,} hosts, {plan['vm_count']:,} VMs, "
            f"{plan['tenant_count']:,} tenants"
        ),
        (
            f"Plan {plan['digest']}, made {plan['planned_at']}. Nothing was announced or "
            "changed."
        ),
        (
            f"Ends {plan['typical']['ends']} with typical hosts, {plan['slow']['ends']} with "
            "slow ones."
        ),
    ]
    binding = [
        (each["message"], f"{each['rounds']:,} rounds") for each in plan["bounds"]
    ]
    parts = [
        *head(title),
        *(f"<p>{text(each)}</p>" for each in (*facts, *plan["warnings"])),
        picture(plan["hosts"]),
        "<h2>Constraints, the one that binds first</h2>",
        table(binding),
        "<h2>Budgets</h2>",
        table([(each,) for each in plan["limits"]]),
    ]
    if plan["refused_count"]:
        rows = [(each["host"], each["message"]) for each in plan["refused"]]
        left = plan["refused_count"] - len(rows)
        rows += [(f"and {left:,} more", "")] if left else []
        parts += ["<h2>Hosts that cannot be done now</h2>", table(rows)]
    if plan["apart"]:
        rows = [(each["message"], each["hint"]) for each in plan["apart"]]
        parts += ["<h2>Hosts whose windows are never open together</h2>", table(rows)]
    if plan["held"]:
        rows = [(each["message"], each["hint"]) for each in plan["held"]]
        parts += ["<h2>Hosts of other campaigns</h2>", table(rows)]
    return "\n".join([*parts, "</body></html>", ""])


def head(title: str) -> list[str]:
    """Return the first lines of a page; `title` is HTML."""
    return [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f"<title>{title}</title><style>{STYLE}</style></head><body>",
        f"<h1>{title}</h1>",
    ]


def picture(hosts: Sequence[Json]) -> str:
    """Return the hosts over time as SVG."""
    begin = min(parse_instant(each["begins"]) for each in hosts)
    end = max(parse_instant(each["ends"]) for each in hosts)
    scale = WIDTH / max(1, end - begin)
    together = -(-len(hosts) // ROWS_MAX)
    rows = [hosts[at : at + together] for at in range(0, len(hosts), together)]
    height = (len(rows) + 2) * ROW
    return "\n".join(
        [
            (
                f'<svg role="img" aria-label="hosts over time" width="{LEFT + WIDTH + 20}" '
                f'height="{height}">'
            ),
            *_axis(begin, end, scale, height),
            *(
                line
                for place, row in enumerate(rows, start=1)
                for line in _row(row, place * ROW, begin, scale)
            ),
            "</svg>",
        ]
    )


def _axis(begin: Micros, end: Micros, scale: float, height: int) -> Iterator[str]:
    for number in range(MARKS):
        at = begin + (end - begin) * number // MARKS
        x = LEFT + (at - begin) * scale
        told = format_instant(at)[:16].replace("T", " ")
        yield f'<line x1="{x:.0f}" y1="0" x2="{x:.0f}" y2="{height}" stroke="#ddd"/>'
        yield f'<text x="{x + 2:.0f}" y="10">{told}</text>'


def _row(row: Sequence[Json], y: int, begin: Micros, scale: float) -> Iterator[str]:
    first, last = row[0]["host"], row[-1]["host"]
    name = first if len(row) == 1 else f"{first} … {last} ({len(row)})"
    short = name[:NAME_CHARACTERS]
    yield (f'<text x="0" y="{y + 11}">{text(short)}<title>{text(name)}</title></text>')
    for each in row:
        x = LEFT + (parse_instant(each["begins"]) - begin) * scale
        length = (parse_instant(each["ends"]) - parse_instant(each["begins"])) * scale
        has_failed = each.get("state") == "failed"
        color = (
            _FAILED if has_failed else _COLORS[(int(each["stage"]) - 1) % len(_COLORS)]
        )
        title = f"{each['host']}: {each['begins']} to {each['ends']}"
        title += ", failed" if has_failed else ""
        yield (
            f'<rect x="{x:.1f}" y="{y + 2}" width="{max(length, 1):.1f}" '
            f'height="{ROW - 4}" fill="{color}" fill-opacity="0.8">'
            f"<title>{text(title)}</title></rect>"
        )


def table(rows: Sequence[Sequence[Any]]) -> str:
    """Return rows of texts as HTML."""
    cells = (
        "<tr>" + "".join(f"<td>{text(cell)}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return f"<table>{''.join(cells)}</table>"


def text(value: Any) -> str:
    """Return a value as HTML."""
    return escape(printable(str(value)))
