"""Test the exact messages for invalid fleet files.

`messages.txt` has the cases: a title, a file, `----`, the problems. After a
change of words, `pytest --rewrite` writes what is said now, to be read in the
difference.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.fleet.errors import FleetFileError
from forewarn.fleet.file import read_fleet
from forewarn.problems import PROBLEMS_MAX

CASES = Path(__file__).with_name("messages.txt")
BETWEEN = "\n========\n"


def read_cases() -> Iterator[tuple[str, str, str]]:
    for case in CASES.read_text(encoding="utf-8").strip().split(BETWEEN):
        title, _, rest = case.partition("\n")
        text, _, expected = rest.partition("----\n")
        yield title, text, expected


KNOWN = list(read_cases())


def told(text: str) -> str:
    try:
        read_fleet(text, name="fleet.toml")
    except FleetFileError as error:
        return error.message
    return "nothing is wrong"


@pytest.mark.parametrize(
    ("title", "text", "expected"), KNOWN, ids=[title for title, _, _ in KNOWN]
)
def test_invalid_file_is_explained(
    title: str, text: str, expected: str, request: pytest.FixtureRequest
) -> None:
    if request.config.getoption("--rewrite"):
        pytest.skip("rewritten by another test")
    assert told(text) == expected


def test_message_cases_are_rewritten_on_request(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--rewrite"):
        pytest.skip("only with --rewrite")
    new = [f"{title}\n{text}----\n{told(text)}" for title, text, _ in KNOWN]
    CASES.write_text(BETWEEN.join(new) + "\n", encoding="utf-8")


LONG = "1" * 5_000
LONG_NUMBER = "a number of that length"
TOO_LONG = "'11111111111111111111'… is longer than ten years"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "x = " + "[" * 5_000,
            "fleet.toml: this is not TOML: lists or tables are nested too deeply",
        ),
        (f"x = {LONG}", "fleet.toml: this is not TOML: a number is too long"),
        (
            f'[[host]]\nname = "h"\ncapacity = 0x{LONG}\n',
            "fleet.toml:3: host.capacity: must be 0 to 1000000, not " + LONG_NUMBER,
        ),
        (
            f'[[host]]\nname = "h"\nzone = 0x{LONG}\n',
            "fleet.toml:3: host.zone: must be text, not " + LONG_NUMBER,
        ),
        (
            f'[[scope]]\nname = "s"\nkind = "scale-set"\nterminate_notice = "{LONG}d"',
            "fleet.toml:4: scope.terminate_notice: " + TOO_LONG,
        ),
        (
            f'[[host]]\nname = "{LONG}"\n',
            "fleet.toml:2: host.name: a name has at most 128 characters, not 5000",
        ),
        (
            f'[[vm]]\nname = "a"\nhost = "h"\nsize = "{LONG}"\n[[host]]\nname = "h"\n',
            "fleet.toml:4: vm.size: has at most 512 characters, not 5000",
        ),
        (
            '[[vm]]\nname = "a"\nhost = "h"\n[[host]]\nname = "h"\n[vm.tags]\n'
            + "".join(f't{n} = ""\n' for n in range(51)),
            "fleet.toml:6: vm.tags: a VM has at most 50 tags, not 51",
        ),
        (
            '[[host]]\nname = "h"\n[[vm]]\nname = "a"\nhost = "h"\naddress = ['
            + "".join(f'"192.0.2.{n}",' for n in range(65))
            + "]\n",
            "fleet.toml:6: vm.address: a VM has at most 64 addresses, not 65",
        ),
    ],
)
def test_oversized_input_gets_a_short_message(text: str, expected: str) -> None:
    assert told(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "".join(f'[[vm]]\nname = "v{n}"\nhost = "h"\n' for n in range(60)),
        "".join(f'[[vm]]\nname = "v{n}"\nhots = "h"\n' for n in range(60)),
        "".join(f"[t{n}]\n" for n in range(60)),
        '[[vm]]\nname = "a"\n' + "".join(f"x{n} = 1\n" for n in range(60)),
        "[[tenant]]\nname = 'a'\n[[tenant]]\nname = 'b'\n"
        + "".join(f"[[vm]]\nname = 'v{n}'\nhost = 'h'\n" for n in range(60)),
    ],
)
def test_number_of_reported_mistakes_is_limited(text: str) -> None:
    with pytest.raises(FleetFileError) as caught:
        read_fleet(text, name="fleet.toml")
    assert len(caught.value.problems) == PROBLEMS_MAX
    assert caught.value.message.endswith("\nand more: these are the first 50")
    assert caught.value.hint == "fix the fleet file; nothing was changed"
