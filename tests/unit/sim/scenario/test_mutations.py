"""Invalid files are refused with a place, and never crash the reader."""

import random

import pytest

from forewarn.sim.scenario import builtin
from forewarn.sim.scenario.file import ScenarioError, read_scenario

MUTATIONS = 300
"""Number of files per seed: a tenth of a second of work."""

VALUES = (
    "1", "-1", "1.5", "nan", "true", '""', '"x"', '"15m"', '"web_0"', "2026-01-01",
    "[]", "{}", '["a", "a"]', '[1, "a"]', "{ a = 1 }", '[{ name = "x" }]',
)  # fmt: skip
HEADERS = (
    "[step]", "[[step]]", "[step.event]", "[[step.event]]", "[[step.expect]]",
    "[fleet]", "[[fleet]]", "[[fleet.vm]]", '["fleet".vm]', "[[fleet . host]]",
    "[settings]", "[[settings]]", '["a b"]',
)  # fmt: skip


def mutated(chance: random.Random, lines: list[str], others: list[str]) -> list[str]:
    place = chance.randrange(len(lines))
    line = lines[place]
    match chance.randrange(5):
        case 0:
            return [*lines[:place], *lines[place + 1 :]] or lines
        case 1:
            return [*lines[:place], chance.choice(others), *lines[place:]]
        case 2:
            line = f"{line.partition('=')[0]} = {chance.choice(VALUES)}"
        case 3:
            line = chance.choice(HEADERS)
        case _:
            line = line.replace(chance.choice('abegv_="[{'), chance.choice('xz"]'), 1)
    return [*lines[:place], line, *lines[place + 1 :]]


@pytest.mark.parametrize("seed", range(5))
def test_invalid_file_is_refused_with_a_line(seed: int) -> None:
    chance = random.Random(seed)
    texts = [builtin.text(name).splitlines() for name in builtin.names()]
    others = [line for text in texts for line in text]
    refused = 0
    for _ in range(MUTATIONS):
        lines = chance.choice(texts)
        for _ in range(chance.randint(1, 3)):
            lines = mutated(chance, lines, others)
        try:
            read_scenario("\n".join(lines), file="mine.toml")
        except ScenarioError as error:
            refused += 1
            for problem in error.problems:
                assert problem.line <= len(lines), problem
    assert refused > MUTATIONS / 2
