"""Every transcript in this directory, replayed and compared word for word.

If one fails, run `pytest tests/scenarios --rewrite` and read the difference. Keep
it only if you understand its cause and `docs/reference/protocol.md` requires it.
"""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from forewarn.store.port import Store
from forewarn.store.sqlite import SqliteStore
from tests.support.transcripts import form
from tests.support.transcripts.commands import play
from tests.support.worlds import LastingStore

DIRECTORY = Path(__file__).parent
FLEETS = DIRECTORY / "fleets"


def scenarios() -> list[object]:
    return [
        pytest.param(
            file,
            id=file.stem,
            marks=pytest.mark.clause(*form.clauses(file.read_text())),
        )
        for file in sorted(DIRECTORY.glob("*.txt"))
    ]


def opener(kind: str, directory: Path) -> Callable[[], Store]:
    if kind == "sqlite":
        return lambda: SqliteStore(directory / "store.db")
    lasting = LastingStore()
    return lambda: lasting


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("file", scenarios())
def test_scenario(
    file: Path, kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    text = file.read_text(encoding="utf-8")

    message = play(text, name=file.name, directory=FLEETS, store=opener(kind, tmp_path))

    if request.config.getoption("--rewrite") and kind == "memory" and message != text:
        file.write_text(message, encoding="utf-8")
        pytest.skip("rewritten")
    assert message == text


@pytest.mark.parametrize("file", scenarios())
def test_scenario_states_its_purpose_and_clauses(file: Path) -> None:
    text = file.read_text(encoding="utf-8")

    assert re.match(r"# \w.*", text), "a scenario opens with what it proves"
    assert form.clauses(text), "and names the clauses that it covers"
