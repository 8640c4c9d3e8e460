"""Errors: a sentence, a hint, and whose fault it is."""

from __future__ import annotations

import pytest

from forewarn.protocol.errors import (
    BadRequestError,
    ForewarnError,
    IllegalTransitionError,
    NotFoundError,
    RefusedError,
)


def test_an_error_has_a_sentence_and_perhaps_a_hint() -> None:
    error = RefusedError("host h1 is down", hint="`forewarn restore h1` first")
    assert str(error) == error.message == "host h1 is down"
    assert error.hint == "`forewarn restore h1` first"
    assert BadRequestError("no").hint == ""


@pytest.mark.parametrize("kind", [RefusedError, NotFoundError, BadRequestError])
def test_one_door_translates_what_callers_are_told(kind: type[Exception]) -> None:
    assert issubclass(kind, ForewarnError)


def test_what_is_not_there_is_refused_and_what_is_malformed_is_not() -> None:
    assert issubclass(NotFoundError, RefusedError)
    assert not issubclass(BadRequestError, RefusedError)


def test_a_bug_is_no_answer() -> None:
    assert issubclass(IllegalTransitionError, AssertionError)
    assert not issubclass(IllegalTransitionError, ForewarnError)
