"""Enumerations work as those of the standard library, without calls of Python."""

import copy
import pickle
import sys
from types import FrameType

from forewarn.protocol.enumerations import Enumeration


class Fruit(Enumeration):
    APPLE = "apple"
    PEAR = "pear"


def test_member_is_found_by_name_value_and_copy() -> None:
    assert Fruit("apple") is Fruit["APPLE"] is Fruit.APPLE
    assert (Fruit.PEAR.name, Fruit.PEAR.value) == ("PEAR", "pear")
    assert pickle.loads(pickle.dumps(Fruit.PEAR)) is Fruit.PEAR
    assert copy.deepcopy({Fruit.PEAR: 1}) == {Fruit.PEAR: 1}
    assert repr(Fruit.APPLE) == "<Fruit.APPLE: 'apple'>"


def test_hash_name_and_value_call_no_function_of_python() -> None:
    called: list[str] = []

    def note(frame: FrameType, event: str, _given: object) -> None:
        if event == "call":
            called.append(frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        {Fruit.APPLE: 1}[Fruit.APPLE]
        assert Fruit.APPLE.value.upper() + Fruit.APPLE.name == "APPLEAPPLE"
    finally:
        sys.setprofile(before)
    assert called == []
