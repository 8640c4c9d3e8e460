"""Records become rows by compiled functions."""

from operator import attrgetter
from types import SimpleNamespace

from forewarn.store.row_encoders import (
    REMEMBERED_CHARACTERS,
    remembering_last,
    row_encoder,
)


def listed(items: tuple[str, ...]) -> str:
    return f"[{','.join(items)}]"


def test_each_field_is_converted_in_the_order_of_the_columns() -> None:
    encode = row_encoder(
        attrgetter("name", "is_up", "tags", "state"),
        (None, int, listed, str.upper),
        (False, False, True, False),
    )
    record = SimpleNamespace(name="h1", is_up=True, tags=("a", "b"), state="up")
    assert encode(record) == ("h1", 1, "[a,b]", "UP")
    other = SimpleNamespace(name="h2", is_up=False, tags=(), state="")
    assert encode(other) == ("h2", 0, "[]", "")


def test_same_object_is_encoded_once_and_an_equal_one_again() -> None:
    encodings: list[object] = []

    def encode(value: list[str]) -> str:
        encodings.append(value)
        return value[0]

    encoded = remembering_last(encode)
    first, second = ["a"], ["b"]
    texts = [encoded(value) for value in (first, first, second, ["b"], first)]
    assert texts == ["a", "a", "b", "b", "a"]
    assert len(encodings) == 4


def test_long_text_is_not_kept_in_memory() -> None:
    encodings: list[str] = []

    def encode(value: str) -> str:
        encodings.append(value)
        return value

    encoded = remembering_last(encode)
    text = "x" * (REMEMBERED_CHARACTERS + 1)
    encoded(text)
    encoded(text)
    assert len(encodings) == 2
