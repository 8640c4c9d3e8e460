"""The recipes that serve 169.254.169.254 in containers say what the program takes."""

import re
import shlex
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from forewarn.cli import parser
from forewarn.sim.scenario.file import load_scenario
from tests.support import ci_jobs, plain_yaml, testcontainers
from tests.support.plain_yaml import PlainYamlError

RECIPES = Path(__file__).resolve().parents[2] / "deploy" / "simulator"


def recipe(name: str) -> Any:
    return plain_yaml.read((RECIPES / name).read_text(encoding="utf-8"))


def check_words(*words: str) -> None:
    """Fail unless these are words of a command."""
    parser.build(words).parse_args(words)


def test_the_compose_file_shares_the_simulators_network() -> None:
    services = recipe("compose.yaml")["services"]
    simulator, app = services["simulator"], services["app"]
    check_words("simulate", *simulator["command"])
    assert "--link-local" in simulator["command"]
    assert simulator["cap_add"] == ["NET_ADMIN"]
    assert app["network_mode"] == "service:simulator"


def test_compose_file_plays_an_existing_scenario() -> None:
    simulator = recipe("compose.yaml")["services"]["simulator"]
    name = PurePosixPath(simulator["command"][-1])
    mounts = dict(volume.split(":")[:2] for volume in simulator["volumes"])
    [directory] = [here for here, there in mounts.items() if there == str(name.parent)]
    scenario = load_scenario(RECIPES / directory / name.name)
    # No other VM is at the address that the program knows.
    assert scenario.fleet.vms == 1


def test_program_starts_when_the_simulator_answers() -> None:
    services = recipe("compose.yaml")["services"]
    waited = services["app"]["depends_on"]["simulator"]
    assert waited == {"condition": "service_healthy"}
    kind, program, *arguments = services["simulator"]["healthcheck"]["test"]
    assert (kind, program) == ("CMD", "forewarn")
    check_words(*arguments)


def test_pod_runs_the_simulator_alongside_the_program() -> None:
    pod = recipe("sidecar.yaml")
    assert (pod["apiVersion"], pod["kind"]) == ("v1", "Pod")
    [simulator] = pod["spec"]["initContainers"]
    check_words("simulate", *simulator["args"])
    # A container that begins before the others and stays is a sidecar.
    assert simulator["restartPolicy"] == "Always"
    assert "NET_ADMIN" in simulator["securityContext"]["capabilities"]["add"]
    program, *arguments = simulator["startupProbe"]["exec"]["command"]
    assert program == "forewarn"
    check_words(*arguments)
    assert pod["spec"]["containers"]


def test_command_in_the_recipe_comment_is_valid() -> None:
    text = (RECIPES / "sidecar.yaml").read_text(encoding="utf-8")
    [command] = re.findall(r"^#.* -- forewarn (.*)$", text, re.MULTILINE)
    check_words(*shlex.split(command))


def test_image_starts_the_simulator() -> None:
    text = (RECIPES / "Dockerfile").read_text(encoding="utf-8")
    assert 'ENTRYPOINT ["forewarn", "simulate"]' in text
    [arguments] = re.findall(r"^CMD (.*)$", text, re.MULTILINE)
    check_words("simulate", *plain_yaml.read(f"words: {arguments}")["words"])


def test_the_compose_file_builds_the_image() -> None:
    build = recipe("compose.yaml")["services"]["simulator"]["build"]
    context = (RECIPES / build["context"]).resolve()
    assert (context / "pyproject.toml").is_file()
    assert context / build["dockerfile"] == RECIPES / "Dockerfile"


TESTCONTAINERS = sorted((RECIPES / "testcontainers").iterdir())
CI = sorted((RECIPES / "ci").iterdir())


@pytest.mark.parametrize("file", TESTCONTAINERS, ids=lambda file: file.name)
def test_each_language_shows_valid_commands(file: Path) -> None:
    arguments = testcontainers.simulated(file)
    assert arguments[:2] == ["--listen", "0.0.0.0:8301"]
    check_words("simulate", *arguments)
    orders = testcontainers.orders(file)
    assert len(orders) == 2
    for order in orders:
        check_words(*order)


@pytest.mark.parametrize("file", [*TESTCONTAINERS, *CI], ids=lambda file: file.name)
def test_each_recipe_is_marked_untried_and_unpublished(
    file: Path,
) -> None:
    text = file.read_text(encoding="utf-8")
    unrun = "It has not run on Git" if file in CI else "Untried"
    assert unrun in text
    assert "not published" in text
    if file in TESTCONTAINERS:
        assert (
            "docker build -t forewarn-simulator -f deploy/simulator/Dockerfile ."
            in text
        )


def test_jobs_of_all_forges_run_the_same_steps() -> None:
    assert len({ci_jobs.simulation(file) for file in CI}) == 1
    for file in CI:
        [line] = [
            line
            for line in ci_jobs.simulation(file).splitlines()
            if line.startswith("forewarn simulate")
        ]
        check_words(*shlex.split(line.removesuffix("&"))[1:])


def test_forge_publishes_the_results_that_the_job_writes() -> None:
    github, gitlab = map(ci_jobs.read, CI)
    [job] = github["jobs"].values()
    [upload] = [
        step for step in job["steps"] if "upload-artifact" in step.get("uses", "")
    ]
    assert upload["if"] == "always()"
    assert upload["with"]["path"].split() == ["tests.xml", "scenario.xml"]
    artifacts = gitlab["maintenance"]["artifacts"]
    assert artifacts["when"] == "always"
    assert artifacts["reports"]["junit"] == ["tests.xml", "scenario.xml"]


@pytest.mark.parametrize(
    "text",
    ["a: 1\n  b: 2", "a:", "a: 1\na: 2", "a: {b: 1}", "a: [1", "just words"],
)
def test_unsupported_yaml_is_refused(text: str) -> None:
    with pytest.raises(PlainYamlError):
        plain_yaml.read(text)
