"""The words of `simulate --replay`: what goes together, and what does not."""

import pytest

from forewarn.cli import main
from forewarn.cli.commands.simulator import SIMULATE


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["live-migration"], "--replay and a scenario do not go together"),
        (["--fleet", "f.toml"], "--replay and --fleet do not go together"),
        (["--junit", "r.xml"], "--replay and --junit do not go together"),
        (["--profile", "real"], "--replay and --profile real do not go together"),
        (["--speed", "0"], "--speed: must be 0.001 to"),
        ([], "no.jsonl cannot be read: No such file or directory"),
    ],
)
def test_what_a_replay_cannot_have(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", *words, "--replay", "no.jsonl"]) == 2
    assert said in capsys.readouterr().err


def test_exact_is_for_a_replay(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--exact"]) == 2
    assert "--exact says how a --replay is served" in capsys.readouterr().err


def test_help_of_exact_names_the_bytes_that_differ() -> None:
    (exact,) = (each for each in SIMULATE.options if each.name == "--exact")
    assert "except for the Date header" in exact.help
