"""The VM that an event belongs to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.agent.core import names
from tests.unit.agent.core.support import notice

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


@pytest.mark.parametrize(
    ("resources", "name", "wanted"),
    [
        (("vm1",), "vm1", True),
        (("vm10",), "vm1", False),
        (("vm1",), "vm10", False),
        (("vm0", "vm1"), "vm1", True),
        (("VM1",), "vm1", True),
        (("vm1",), "Vm1", True),
        ((), "vm1", False),
        (("",), "", False),
        (("vm1",), "", False),
    ],
)
def test_names_are_compared_whole(
    resources: tuple[str, ...], name: str, *, wanted: bool
) -> None:
    assert names.is_named(notice(resources=resources), name) is wanted


def test_name_comparison_ignores_case() -> None:
    assert names.is_same("Web_0", "web_0")
    assert not names.is_same("web_0", "web_1")
    assert names.keys_of(["Web_0", "WEB_0"]) == {"web_0"}


@pytest.mark.parametrize(
    ("computer", "wanted"),
    [
        ("x00000i", "x_18"),
        ("x00000I", "x_18"),
        ("aks-pool-12345-vmss00000a", "aks-pool-12345-vmss_10"),
        ("x000010", "x_36"),
        ("x000000", "x_0"),
        ("x0000_1", ""),
        ("000001", ""),
        ("x1", ""),
        ("", ""),
        ("x00000ä", ""),
    ],
)
def test_computer_name_suffix_is_read_in_base_36(computer: str, wanted: str) -> None:
    assert names.scale_set_name(computer) == wanted


@given(st.integers(0, 36**6 - 1))
def test_every_instance_number_has_a_computer_name(number: int) -> None:
    suffix, left = "", number
    for _ in range(6):
        left, digit = divmod(left, 36)
        suffix = DIGITS[digit] + suffix
    assert names.scale_set_name(f"web{suffix}") == f"web_{number}"
