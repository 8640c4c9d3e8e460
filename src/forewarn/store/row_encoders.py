"""Fast conversion of records to rows: a fleet file has millions of them.

A function is compiled for each kind of record, as in `protocol.frozen`: a loop over the
columns takes twice as long.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

Encode: TypeAlias = Callable[[Any], Any]
"""Converts the value of a field to its stored form."""

EMPTY_LIST = "[]"

REMEMBERED_CHARACTERS = 1_000
"""Maximum length of a stored form that is remembered: a fleet file has one of megabytes."""


def row_encoder(
    fields: Callable[[Any], tuple[Any, ...]],
    encodes: Sequence[Encode | None],
    are_lists: Sequence[bool],
) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that converts the `fields` of a record by `encodes`, in order.

    None: the value is stored unchanged. `are_lists`: whether each encodes a list, since
    most lists are empty.
    """
    space: dict[str, Any] = {"fields": fields}
    terms: list[str] = []
    for at, (encode, is_list) in enumerate(zip(encodes, are_lists, strict=True)):
        name = f"v{at}"
        if encode is None:
            terms.append(name)
        elif encode is int:
            terms.append(f"1 if {name} else 0")
        else:
            space[f"e{at}"] = encode
            term = f"e{at}({name})"
            terms.append(f"{term} if {name} else {EMPTY_LIST!r}" if is_list else term)
    names = "".join(f"v{at}, " for at in range(len(encodes)))
    row = "".join(f"{term}, " for term in terms)
    exec(  # noqa: S102 - from names of this module only
        f"def encode(record):\n    {names}= fields(record)\n    return ({row})", space
    )
    return space["encode"]


def remembering_last(encode: Encode) -> Encode:
    """Return a function that encodes the same object once, if it comes again at once.

    All history entries of a transaction have one actor, for example.
    """
    last: tuple[object, Any] = (object(), "")

    def encoded(value: Any) -> Any:
        nonlocal last
        # One assignment, since several threads may encode.
        known, text = last
        if known is value:
            return text
        text = encode(value)
        if len(text) <= REMEMBERED_CHARACTERS:
            last = (value, text)
        return text

    return encoded
