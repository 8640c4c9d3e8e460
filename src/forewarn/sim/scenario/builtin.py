"""The scenarios that come with forewarn, by name and alias.

They are files like anybody's: `text` returns one to be copied and changed.
"""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.resources import files

from forewarn.problems import did_you_mean, quoted
from forewarn.protocol.errors import NotFoundError
from forewarn.sim.scenario.file import read_scenario
from forewarn.sim.scenario.model import Scenario

_FOLDER = files("forewarn.sim") / "scenarios"


@functools.cache
def scenarios() -> tuple[Scenario, ...]:
    """Return all of them, in the order of their names."""
    found = [
        read_scenario(file.read_text(encoding="utf-8"), file=file.name)
        for file in _FOLDER.iterdir()
        if file.name.endswith(".toml")
    ]
    return tuple(sorted(found, key=lambda scenario: scenario.name))


def find(name: str) -> Scenario:
    """Return the scenario of a name or alias, whatever its case.

    An alias may bring a speed. One that differs from a name only in its spelling
    is meant when it is spelt so. Raises NotFoundError.
    """
    for spelt in (str, str.casefold, _plain):
        wanted = spelt(name)
        for scenario in scenarios():
            if scenario.name == wanted:
                return scenario
            for alias in scenario.aliases:
                if spelt(alias.name) == wanted:
                    named = _plain(alias.name)
                    return replace(scenario, name=named, speed=alias.speed)
    meant = did_you_mean(_plain(name), map(_plain, _names()))
    raise NotFoundError(
        f"there is no scenario {quoted(name)}{meant}",
        hint="`forewarn simulate --list` shows them; a file is named with its suffix",
    )


def text(name: str) -> str:
    """Return the file of a scenario, to be copied and changed; raises NotFoundError."""
    return (_FOLDER / find(name).file).read_text(encoding="utf-8")


def _names() -> Iterator[str]:
    for scenario in scenarios():
        yield scenario.name
        yield from (alias.name for alias in scenario.aliases)


def names() -> Sequence[str]:
    """Return the names without aliases, sorted: for completion and lists."""
    return [scenario.name for scenario in scenarios()]


def _plain(name: str) -> str:
    """Return a name in lower case, with hyphens between its words."""
    return "-".join(name.lower().replace("_", " ").replace("-", " ").split())
