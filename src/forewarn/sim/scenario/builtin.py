"""The built-in scenarios, by name and alias.

Built-in scenarios are normal scenario files: `text` returns one, to copy and change.
"""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.resources import files

from forewarn.problems import did_you_mean, quoted
from forewarn.protocol.errors import NotFoundError
from forewarn.sim.scenario.file import read_scenario
from forewarn.sim.scenario.model import Scenario

_SCENARIOS = files("forewarn.sim") / "scenarios"


@functools.cache
def scenarios() -> tuple[Scenario, ...]:
    """Return all built-in scenarios, sorted by name."""
    scenarios_ = [
        read_scenario(file.read_text(encoding="utf-8"), file=file.name)
        for file in _SCENARIOS.iterdir()
        if file.name.endswith(".toml")
    ]
    return tuple(sorted(scenarios_, key=lambda scenario: scenario.name))


def find(name: str) -> Scenario:
    """Return the scenario with a name or alias, ignoring case.

    An alias may set the speed. An exact match wins over one with another spelling. Raises
    NotFoundError.
    """
    for spelt in (str, str.casefold, _plain):
        wanted = spelt(name)
        for scenario in scenarios():
            if scenario.name == wanted:
                return scenario
            for alias in scenario.aliases:
                if spelt(alias.name) == wanted:
                    return replace(scenario, name=_plain(alias.name), speed=alias.speed)
    meant = did_you_mean(_plain(name), map(_plain, _names()))
    raise NotFoundError(
        f"scenario {quoted(name)} does not exist{meant}",
        hint="Run `forewarn simulate --list` to list scenarios. The name of a file needs "
        "its suffix.",
    )


def text(name: str) -> str:
    """Return the file of a scenario, to copy and change; raises NotFoundError."""
    return (_SCENARIOS / find(name).file).read_text(encoding="utf-8")


def _names() -> Iterator[str]:
    for scenario in scenarios():
        yield scenario.name
        yield from (alias.name for alias in scenario.aliases)


def names() -> Sequence[str]:
    """Return the sorted names without aliases, for completion and lists."""
    return [scenario.name for scenario in scenarios()]


def _plain(name: str) -> str:
    """Return a name in lower case, with hyphens between its words."""
    return "-".join(name.lower().replace("_", " ").replace("-", " ").split())
