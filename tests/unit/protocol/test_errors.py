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


def test_error_has_a_message_and_an_optional_hint() -> None:
    error = RefusedError("host h1 is down", hint="`forewarn restore h1` first")
    assert str(error) == error.message == "host h1 is down"
    assert error.hint == "`forewarn restore h1` first"
    assert BadRequestError("no").hint == ""


@pytest.mark.parametrize("kind", [RefusedError, NotFoundError, BadRequestError])
def test_every_reported_error_is_a_forewarn_error(kind: type[Exception]) -> None:
    assert issubclass(kind, ForewarnError)


def test_not_found_is_a_refusal_and_bad_request_is_not() -> None:
    assert issubclass(NotFoundError, RefusedError)
    assert not issubclass(BadRequestError, RefusedError)


def test_illegal_transition_is_not_a_forewarn_error() -> None:
    assert issubclass(IllegalTransitionError, AssertionError)
    assert not issubclass(IllegalTransitionError, ForewarnError)
