"""The page of the built-in scenarios, `docs/reference/scenarios.md`."""

from collections.abc import Iterator

from forewarn.sim.scenario import builtin, demands, rehearsal
from forewarn.sim.scenario.model import Scenario


def page() -> str:
    """Return the page as Markdown."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Scenarios"
    yield ""
    yield (
        "<!-- Written by tests/support/scenarios_page.py; `pytest --rewrite` renews "
        "it. -->"
    )
    yield ""
    yield "| scenario | what happens |"
    yield "|---|---|"
    for scenario in builtin.scenarios():
        yield f"| [`{scenario.name}`](#{scenario.name}) | {scenario.description} |"
    yield ""
    yield "The timelines are at speed 1, without approvals."
    for scenario in builtin.scenarios():
        yield from _section(scenario)


def _section(scenario: Scenario) -> Iterator[str]:
    yield ""
    yield f"## {scenario.name}"
    yield ""
    yield scenario.description
    aliases = [
        f'"{alias.name}"'
        + (f" (speed {alias.speed:g})" if alias.speed is not None else "")
        for alias in scenario.aliases
    ]
    if aliases:
        yield ""
        yield f"Aliases: {', '.join(aliases)}."
    if scenario.own_speed is not None:
        yield ""
        yield f"`forewarn simulate` plays it at speed {scenario.own_speed:g}."
    yield ""
    yield "Expected:"
    yield ""
    for client in scenario.clients:
        yield f"- {demands.summary(client)}"
    yield ""
    yield "Timeline:"
    yield ""
    for line in rehearsal.lines_of(rehearsal.play(scenario)):
        yield f"- {line}"
