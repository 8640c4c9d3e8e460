"""The values of a column reach PostgreSQL unchanged, as one text."""

from contextlib import closing

import pytest

from forewarn.store.port import StoreError
from forewarn.store.postgres import dialect
from forewarn.store.postgres.connection import PostgresConnection
from tests.support import postgres

pytestmark = postgres.needing_postgres

TEXTS = ("", "NULL", "a,b", '{"a": "\\"b\\\\"}', "\\", '"', "{}", "é\n\t\x01", " x ")


def stored(values: tuple[str | int | None, ...], kind: str) -> list[object]:
    """Return the values that PostgreSQL finds in an array."""
    with (
        postgres.one_database() as url,
        closing(PostgresConnection(url)) as connection,
    ):
        sql = f"SELECT * FROM unnest(%s::{kind}[])"
        return [value for (value,) in connection.raw(sql, (dialect.array(values),))]


@pytest.mark.parametrize(
    "values", [TEXTS, TEXTS[:1], (*TEXTS, None), (None, None), tuple(TEXTS[3] * 3)]
)
def test_texts_of_a_column_are_found_as_they_were_written(
    values: tuple[str | None, ...],
) -> None:
    assert stored(values, "text") == [*values]


@pytest.mark.parametrize("values", [(0, -5, 2**62), (7,), (1, None)])
def test_numbers_of_a_column_are_found_as_they_were_written(
    values: tuple[int | None, ...],
) -> None:
    assert stored(values, "bigint") == [*values]


def test_flags_of_a_column_are_numbers() -> None:
    assert dialect.array((True, False)) == "{1,0}"


def test_text_with_a_null_character_is_refused_instead_of_split() -> None:
    with pytest.raises(StoreError):
        stored(("a", "b\0c", "d"), "text")
