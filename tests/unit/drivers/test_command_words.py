"""The arguments of programs: their checks and their placeholders."""

from dataclasses import replace

import pytest

from forewarn.drivers import placeholders
from forewarn.drivers.port import Call, CallVm, DriverError
from forewarn.protocol.operations import Action

FREEZE, REDEPLOY = (
    placeholders.known_in(Action.FREEZE),
    placeholders.known_in(Action.REDEPLOY),
)


def call_of(vm: str, *, host: str = "h1", to_host: str = "") -> Call:
    return Call(
        operation_id="op-1",
        generation=3,
        action=Action.LIVE_MIGRATE,
        host=host,
        vms=(CallVm(vm=vm, to_host=to_host),),
        duration_seconds=9,
    )


def expanded(call: Call, *words: str) -> tuple[str, ...]:
    return placeholders.expand(words, placeholders.values_of(call, call.vms[0]))


def test_each_placeholder_has_the_value_of_the_call() -> None:
    arguments = [f"{{{name}}}" for name in placeholders.PLACEHOLDERS]
    assert expanded(call_of("web_0", to_host="h2"), *arguments) == (
        "web_0",
        "h1",
        "h2",
        "9",
        "live-migrate",
        "op-1",
        "3",
        "op-1.3.live-migrate",
    )


def test_program_that_moves_a_vm_is_told_the_hosts_to_avoid() -> None:
    call = replace(call_of("web_0"), closed=("h3", "h4"), waiting=("h6", "h5"))
    arguments = ("{closed}", "--not={waiting}")
    assert not placeholders.arguments_problem(("x", *arguments), REDEPLOY)
    assert expanded(call, *arguments) == ("h3,h4", "--not=h6,h5")
    for unsafe in (replace(call, closed=("-f",)), replace(call, waiting=("a,b",))):
        with pytest.raises(DriverError, match="cannot pass this name to a program"):
            expanded(unsafe, *arguments)


def test_value_is_neither_expanded_again_nor_split() -> None:
    call = call_of("{host};$(x)")
    assert expanded(call, "--domain={vm}/{vm}") == ("--domain={host};$(x)/{host};$(x)",)


def test_other_braces_are_kept() -> None:
    arguments = ('{"vm": "{vm}"}', "{}", "{0}", "${x y}")
    assert not placeholders.arguments_problem(("x", *arguments), FREEZE)
    assert expanded(call_of("a"), *arguments) == ('{"vm": "a"}', "{}", "{0}", "${x y}")


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ((), "names no program"),
        (("",), "must begin with a program"),
        (("/bin/{vm}",), "must begin with a program"),
        (("bin/x",), '"bin/x" must be an absolute path'),
        (("./x",), '"./x" must be an absolute path'),
        (("x", "a\nb"), "must not contain control characters"),
        (("x", "\0"), "must not contain control characters"),
        (("x",) * 101, "can have at most 100 arguments"),
        (("x", "{vmm}"), 'unknown placeholder {vmm} (did you mean "vm"?)'),
        (("x", "a={name}"), "unknown placeholder {name}: use one of {vm}, {host}"),
        (("x", "{closed}"), "unknown placeholder {closed}: use one of {vm}, {host}"),
        (("x", "{to_host}"), "{to_host} is only available in live_migrate, redeploy"),
    ],
)
def test_arguments_that_cannot_be_run_are_reported(
    words: tuple[str, ...], fault: str
) -> None:
    assert placeholders.arguments_problem(words, FREEZE).startswith(fault)


def test_valid_arguments_are_accepted() -> None:
    assert not placeholders.arguments_problem(("/bin/x", "{vm}", "{to_host}"), REDEPLOY)
    assert not placeholders.arguments_problem(("virsh", "-c", "x"), FREEZE)


@pytest.mark.parametrize("name", ["", "-rf", "a b", "a/b", "a\nb", ".."])
def test_unsafe_name_is_not_passed_to_a_program(name: str) -> None:
    for call in (call_of(name), call_of("a", host=name)):
        with pytest.raises(DriverError, match="cannot pass this name to a program"):
            expanded(call, "{vm}")
