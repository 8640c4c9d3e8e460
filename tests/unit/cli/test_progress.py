"""The progress of a plan or simulation as text."""

import pytest

from forewarn.cli.progress import BAR_CHARACTERS, bar


@pytest.mark.parametrize(
    ("part", "done", "of", "text"),
    [
        ("waiting", 0, 0, ", waiting for its turn"),
        ("planning", 0, 0, ", the fleet is read"),
        ("reading", 0, 1_000, f" [{'.' * 20}] 0 of 1,000 hosts read"),
        ("playing", 5, 20, f" [{'#' * 5}{'.' * 15}] 5 of 20 hosts done"),
        ("playing", 20, 20, f" [{'#' * 20}] 20 of 20 hosts done"),
        # A newer service can have other parts.
        ("resting", 0, 0, ", resting"),
    ],
)
def test_progress_is_a_bar_if_something_is_counted(
    part: str, done: int, of: int, text: str
) -> None:
    assert bar({"part": part, "done": done, "of": of}) == text


def test_bar_is_never_longer_than_its_width() -> None:
    assert bar({"part": "playing", "done": 30, "of": 20}).count("#") == BAR_CHARACTERS
