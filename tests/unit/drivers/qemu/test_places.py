"""The paths of monitors, and the settings in a program's arguments."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from forewarn.drivers.placeholders import expand
from forewarn.drivers.qemu.places import (
    Places,
    address_problem,
    destination_of,
    path_problem,
    places_from,
)
from forewarn.fleet.validators import name_fault


def test_settings_survive_the_placeholders_of_a_call() -> None:
    places = Places(
        monitor="/run/qemu/{host}/{vm}.qmp",
        migration="tcp:{host}:0",
        start=("/bin/start", "{vm}", "a{b}"),
        receive=("/bin/start", "{vm}", "-incoming", "defer"),
        freeze=7.5,
    )
    arguments = expand((places.text,), {"vm": "web_0", "host": "h1"})
    assert places_from(arguments[0]) == places


def test_paths_and_programs_have_the_names_of_a_vm_and_a_host() -> None:
    places = Places(
        monitor="/run/{host}/{vm}.qmp",
        events="/run/{host}/{vm}.events",
        migration="tcp:{host}:0",
    )
    assert places.monitor_of("web_0", "h1") == Path("/run/h1/web_0.qmp")
    assert places.events_of("web_0", "h1") == Path("/run/h1/web_0.events")
    assert places.migration_of("web_0", "h2") == "tcp:h2:0"
    arguments = places.words_of(("/bin/start", "{vm}", "{host}"), "web_0", "h2")
    assert arguments == ("/bin/start", "web_0", "h2")


def test_sockets_of_a_vm_and_of_all_vms_are_found(tmp_path: Path) -> None:
    # Names can have characters that patterns of files interpret.
    directory = tmp_path / "a[1]"
    for name in ("h1/web_0", "h2/web_0", "h1/db*"):
        path = directory / f"{name}.qmp"
        path.parent.mkdir(exist_ok=True, parents=True)
        path.touch()
    template = f"{directory}/{{host}}/{{vm}}.qmp"
    places = Places(monitor=template, events=template)
    assert places.hosts_of("web_0") == ["h1", "h2"]
    assert places.hosts_of("db*") == ["h1"]
    assert places.hosts_of("web_*") == []
    assert places.watched() == [("db*", "h1"), ("web_0", "h1"), ("web_0", "h2")]
    assert Places(monitor=template).watched() == []


def test_name_that_is_twice_in_a_path_must_be_the_same(tmp_path: Path) -> None:
    for name in ("web_0/h1.web_0", "web_0/h1.web_1"):
        path = tmp_path / f"{name}.qmp"
        path.parent.mkdir(exist_ok=True)
        path.touch()
    places = Places(monitor="", events=f"{tmp_path}/{{vm}}/{{host}}.{{vm}}.qmp")
    assert places.watched() == [("web_0", "h1")]


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/run/{host}/{vm}.qmp", ""),
        ("run/{host}/{vm}.qmp", "must be an absolute path"),
        ("/run/{vm}\n{host}", "must be an absolute path"),
        ("/run/{host}.qmp", "must have the placeholder {vm}"),
        ("/run/{vm}.qmp", "must have the placeholder {host}"),
        ("/run/{vm}/{hst}.qmp", "unknown placeholder {hst}: use {vm} and {host}"),
        ("/run/{host}@{vm}.qmp", ""),
        ("/run/{vm}/{host}.{vm}.qmp", ""),
        ("/run/{host}-{vm}.qmp", "two VMs could have one path"),
        ("/run/{host}{vm}", "two VMs could have one path"),
        ("/run/{host}.{vm}/{vm}.{host}", "two VMs could have one path"),
    ],
)
def test_path_needs_both_names(path: str, problem: str) -> None:
    assert path_problem(path).startswith(problem)
    assert bool(path_problem(path)) == bool(problem)


PARTS = st.sampled_from(("{vm}", "{host}", "/", "@", ".", "-", "a", " "))
NAMES = st.text(alphabet=".-a", min_size=1, max_size=4).filter(
    lambda n: not name_fault(n)
)


@given(
    path=st.lists(PARTS, max_size=8).map(lambda parts: "/" + "".join(parts)),
    pairs=st.sets(st.tuples(NAMES, NAMES), min_size=2),
)
@example(path="/run/{host}.{vm}", pairs={("a", "b.c"), ("a.b", "c")})
def test_accepted_path_is_never_that_of_two_vms(
    path: str, pairs: set[tuple[str, str]]
) -> None:
    places = Places(monitor=path)
    paths = {f"{places.monitor_of(vm, host)}" for vm, host in pairs}
    assert path_problem(path) or len(paths) == len(pairs)


@pytest.mark.parametrize(
    ("path", "one", "two"),
    [
        ("/run/{host}.{vm}", ("b.c", "a"), ("c", "a.b")),
        ("/run/{vm}{host}", ("a", "bc"), ("ab", "c")),
        ("/run/{host}.{vm}/{vm}.{host}", ("a", "a.a"), ("a.a", "a")),
    ],
)
def test_refused_path_is_that_of_two_vms(
    path: str, one: tuple[str, str], two: tuple[str, str]
) -> None:
    places = Places(monitor=path)
    assert path_problem(path)
    assert places.monitor_of(*one) == places.monitor_of(*two)


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("tcp:{host}:0", ""),
        ("tcp:{host}:49152,to=49215", ""),
        ("tcp:[::1]:49152,to=49215", ""),
        ("unix:/run/{vm}.move", ""),
        ("exec:rm -r /", "must be an address such as"),
        ("tcp:{host}", "must be an address such as"),
        ("tcp:{host}:0\n", "must be an address such as"),
        ("tcp:{host}:0,to=", "must be an address such as"),
        ("tcp:{to_host}:0", "unknown placeholder {to_host}"),
        ("tcp:{host}:49215,to=49152", "49215 to 49152 is not a range of ports"),
        ("tcp:{host}:0,to=9", "0 to 9 is not a range of ports"),
        ("tcp:{host}:65530,to=65536", "65530 to 65536 is not a range of ports"),
        ("tcp:{host}:4444", "two VMs can move to one host at once"),
        ("unix:/run/{host}.move", "must have the placeholder {vm}"),
    ],
)
def test_address_of_a_migration_is_tcp_or_a_socket(address: str, problem: str) -> None:
    assert address_problem(address).startswith(problem)
    assert bool(address_problem(address)) == bool(problem)


@pytest.mark.parametrize(
    ("address", "port", "target"),
    [
        ("tcp:h2:0", "35825", "tcp:h2:35825"),
        ("tcp:h2:49152,to=49215", "49153", "tcp:h2:49153"),
        ("tcp:[::1]:49152,to=49215", "49152", "tcp:[::1]:49152"),
        ("unix:/run/web_0.move", "", "unix:/run/web_0.move"),
    ],
)
def test_source_sends_to_the_port_that_the_destination_has_taken(
    address: str, port: str, target: str
) -> None:
    assert destination_of(address, port) == target
