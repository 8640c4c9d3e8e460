"""`fleet discover`: the output of a program as a fleet file."""

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from forewarn.fleet.file import read_fleet
from tests.unit.cli.conftest import Ended

Run = Callable[..., Ended]

INVENTORY = {
    "hosts": [{"name": "h2"}, {"name": "h1", "rack": "r1"}],
    "vms": [{"name": "web_0", "host": "h1"}],
}


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], str]:
    """Return a way to get the command of a program in Python."""

    def write(text: str) -> str:
        file = tmp_path / "the inventory"
        file.write_text(text)
        return shlex.join([sys.executable, "-I", "-S", str(file)])

    return write


def test_the_fleet_file_is_printed_or_written(
    program: Callable[[str], str], tmp_path: Path, forewarn: Run
) -> None:
    command = program(f"print({json.dumps(INVENTORY)!r})")
    ended = forewarn("fleet", "discover", "--command", command)
    assert (ended.status, ended.err) == (0, "")
    assert ended.out == (
        '[[host]]\nname = "h1"\nrack = "r1"\n\n[[host]]\nname = "h2"\n\n'
        '[[vm]]\nname = "web_0"\nhost = "h1"\n'
    )
    file = tmp_path / "fleet.toml"
    again = forewarn("fleet", "discover", str(file), "--command", command)
    assert (again.status, again.out, file.read_text()) == (0, "", ended.out)


def test_a_failed_program_leaves_the_file_as_it_was(
    program: Callable[[str], str], tmp_path: Path, forewarn: Run
) -> None:
    file = tmp_path / "fleet.toml"
    file.write_text("old")
    command = program(f"print({json.dumps(INVENTORY)!r}); raise SystemExit('no route')")
    ended = forewarn("fleet", "discover", str(file), "--command", command)
    assert (ended.status, file.read_text()) == (1, "old")
    assert ended.err.endswith("failed with status 1: no route\n")


def test_a_bad_inventory_is_wrong_usage_with_every_place(
    program: Callable[[str], str], tmp_path: Path, forewarn: Run
) -> None:
    file = tmp_path / "fleet.toml"
    bad = {**INVENTORY, "vms": [{"name": "a", "host": "h9"}, {"host": "h1"}]}
    command = program(f"print({json.dumps(bad)!r})")
    ended = forewarn("fleet", "discover", str(file), "--command", command)
    assert ended.status == 2
    assert not file.exists()
    assert '.vms[0]: vm.host of a: there is no host "h9"' in ended.err
    assert ".vms[1]: vm.name: is missing" in ended.err
    assert "forewarn: the inventory cannot be used\n  hint: Fix" in ended.err


def test_a_program_that_hangs_is_given_up(
    program: Callable[[str], str], forewarn: Run
) -> None:
    command = program("import time; time.sleep(600)")
    ended = forewarn("fleet", "discover", "--command", command, "--timeout", "500ms")
    assert (ended.status, ended.err.endswith("did not end in 0.5 s\n")) == (1, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "no source is given"),
        (("--command", "'a"), "--command: No closing quotation"),
        (("--command", "/no/such", "--timeout", "x"), "--timeout: "),
        (("--command", "/no/such"), "/no/such cannot be run: No such file"),
        (("/no/such/dir/f", "--command", "/no/such"), "cannot be written"),
    ],
)
def test_wrong_words_are_told(
    words: tuple[str, ...], message: str, forewarn: Run
) -> None:
    ended = forewarn("fleet", "discover", *words)
    assert ended.status in {1, 2}
    assert message in ended.err


def test_six_thousand_vms_of_four_hundred_hosts(
    program: Callable[[str], str], tmp_path: Path, forewarn: Run
) -> None:
    text = (
        "import json\n"
        "hosts = [{'name': f'h{n}', 'rack': f'r{n // 20}', 'vcpu': 64, 'memory': '1TiB'}"
        " for n in range(400)]\n"
        "vms = [{'name': f'v{n}', 'host': f'h{n % 400}', 'vcpu': 4, 'memory': '16GiB',"
        " 'address': f'10.0.{n // 250}.{n % 250 + 1}'} for n in range(6000)]\n"
        "print(json.dumps({'hosts': hosts, 'vms': vms}))"
    )
    file = tmp_path / "fleet.toml"
    assert not forewarn(
        "fleet", "discover", str(file), "--command", program(text)
    ).status
    wanted = read_fleet(file.read_text(), name="fleet.toml")
    assert wanted.count() == {"tenants": 1, "scopes": 6000, "hosts": 400, "vms": 6000}
