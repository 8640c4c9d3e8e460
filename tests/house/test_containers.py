"""Images and chart say what the program takes, and what their pages say of them."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.agent import front
from forewarn.cli import parser
from forewarn.service.options import OPTIONS, environment_name
from tests.support import plain_yaml

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "forewarn"
PAGE = ROOT / "docs" / "helm.md"

SIMULATOR = DEPLOY / "simulator" / "Dockerfile"
IMAGES = sorted([*(DEPLOY / "docker").glob("*/Dockerfile"), SIMULATOR])
STEPS = frozenset(
    {"ARG", "FROM", "RUN", "COPY", "WORKDIR", "ENV", "USER", "VOLUME", "EXPOSE"}
    | {"HEALTHCHECK", "STOPSIGNAL", "ENTRYPOINT", "CMD"}
)
each_image = pytest.mark.parametrize(
    "image", IMAGES, ids=lambda image: image.parent.name
)

DRAWN = {
    "plain": (),
    "tokens": ("--set", "admin.tokens={alice:0123456789abcdef01234567}"),
    "secret": ("--set", "admin.existingSecret=theirs"),
    "everything": (
        *("--set", "fleet=[[host]]", "--set", "hostNetwork=true"),
        *("--set", "metadata.type=LoadBalancer", "--set", "persistence.enabled=false"),
        *("--set", "imagePullSecrets[0].name=pull", "--set", "priorityClassName=high"),
        *("--set", "podLabels.a=b", "--set", "podAnnotations.a=b"),
        *("--set", "serviceAccount.annotations.a=b", "--set", "nodeSelector.a=b"),
        *("--set", "metadata.annotations.a=b", "--set", "metadata.loadBalancerIP=::1"),
        *("--set", "tolerations[0].operator=Exists", "--set", "extraEnv[0].name=A"),
        *("--set", "admin.existingSecret=theirs", "--set", "admin.tlsSecret=tls"),
    ),
    "peers": (
        *("--set", "admin.existingSecret=theirs"),
        *("--set", "networkPolicy.adminFrom[0].ipBlock.cidr=192.0.2.0/24"),
    ),
    "claim": ("--set", "persistence.existingClaim=theirs"),
}
"""Values that take every branch of the templates."""


def steps(image: Path) -> Iterator[tuple[str, str]]:
    """Yield the instructions of a Dockerfile with what they say."""
    text = re.sub(r"^#.*\n", "", image.read_text("utf-8"), flags=re.MULTILINE)
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            yield word, rest


# Images


@each_image
def test_an_image_has_plain_steps_and_no_root_without_need(image: Path) -> None:
    found = list(steps(image))
    assert {word for word, _ in found} <= STEPS
    users = [rest for word, rest in found if word == "USER"]
    # The simulator gives its network an address, which root alone may do.
    assert users == ([] if image == SIMULATOR else ["10001:10001"])
    # What is built on is a release that the package says it is for.
    supported = (ROOT / "pyproject.toml").read_text("utf-8")
    bases = [rest for word, rest in found if word == "ARG" and rest.startswith("BASE=")]
    assert len(bases) == 1
    version = re.fullmatch(r"BASE=python:(3\.\d+)-slim", bases[0])
    assert version is not None, bases
    assert f"Python :: {version[1]}" in supported
    for word, rest in found:
        assert word != "FROM" or rest in {"${BASE}", "${BASE} AS build"}


@each_image
@pytest.mark.parametrize(
    ("base", "is_refused"),
    [
        ("python:3.13-slim", True),
        ("python:3.13-slim@sha256:0123", True),
        (f"python:3.13-slim@sha256:{'0a' * 32}", False),
        (f"mirror.example/python@sha256:{'0a' * 32}", False),
    ],
)
def test_a_release_is_refused_on_a_base_without_a_digest(
    image: Path, base: str, is_refused: bool
) -> None:
    found = list(steps(image))
    check = next(rest for word, rest in found if word == "RUN")
    assert [rest for word, rest in found if word == "ARG"][1:] == ["BASE", "RELEASE="]
    for release in ("", "1"):
        done = subprocess.run(
            ["/bin/sh", "-c", check],
            env={"BASE": base, "RELEASE": release, "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == (1 if release and is_refused else 0)
        assert ("has no digest" in done.stderr) is bool(done.returncode)


@each_image
def test_an_image_copies_what_is_there_and_let_in(image: Path) -> None:
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    let_in = [line[1:] for line in ignored if line.startswith("!")]
    copied = [
        source
        for word, rest in steps(image)
        if word == "COPY" and not rest.startswith("--from")
        for source in shlex.split(rest)[:-1]
    ]
    assert copied
    for source in copied:
        assert (ROOT / source).exists(), source
        assert any(Path(source).match(each) for each in let_in), source


@each_image
def test_an_image_starts_what_there_is(image: Path) -> None:
    said = dict(steps(image))
    program, *words = json.loads(said["ENTRYPOINT"]) + json.loads(said.get("CMD", "[]"))
    assert program == ("forewarn" if image == SIMULATOR else image.parent.name)
    if program == "forewarn":
        parser.build(words).parse_args(words)
    else:
        front._parser().parse_args(words)


def test_the_simulator_is_built_as_the_service_is() -> None:
    """Each file is to be used alone, so that the stage stands twice."""
    service = list(steps(DEPLOY / "docker" / "forewarn" / "Dockerfile"))
    simulator = list(steps(SIMULATOR))
    second = [word for word, _ in service].index("FROM", 1)
    assert simulator[:second] == service[:second]


@each_image
def test_hadolint_has_nothing_to_say(image: Path) -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("hadolint"), image],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


# The chart


def flat(values: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each value that is none of a table, with its whole name."""
    if isinstance(values, dict) and values:
        for key, value in values.items():
            yield from flat(value, f"{name}.{key}" if name else key)
    else:
        yield name, values


def values() -> dict[str, Any]:
    return dict(flat(plain_yaml.read((CHART / "values.yaml").read_text("utf-8"))))


def template(name: str) -> str:
    return (CHART / "templates" / name).read_text("utf-8")


def test_the_page_has_every_value_with_its_default() -> None:
    text = PAGE.read_text("utf-8")
    rows = re.findall(r"^\| `([\w.]+)` \| `(.*?)` \|", text, re.MULTILINE)
    shown = dict(rows)
    assert len(rows) == len(shown)
    wanted = {
        name: value if isinstance(value, str) and value else json.dumps(value)
        for name, value in values().items()
    }
    assert shown == wanted


def test_the_templates_use_every_value_and_no_other() -> None:
    used: set[str] = set()
    for file in (CHART / "templates").iterdir():
        used |= set(re.findall(r"\.Values\.(\w+(?:\.\w+)*)", file.read_text("utf-8")))
    names = values()
    for each in used:
        assert any(f"{name}.".startswith(f"{each}.") for name in names), each
    for name in names:
        assert any(f"{name}.".startswith(f"{each}.") for each in used), name


def test_the_schema_knows_every_value_and_no_other() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    free: set[str] = set()

    def walk(part: dict[str, Any], name: str) -> Iterator[str]:
        for key, value in part["properties"].items():
            own = f"{name}.{key}" if name else key
            if "properties" in value:
                assert value["additionalProperties"] is False, own
                yield from walk(value, own)
            elif value == {"type": "object"}:
                free.add(own)
            else:
                yield own

    known = {*walk(schema, "")}
    assert schema["additionalProperties"] is False
    for name in values():
        inside = {each for each in free if f"{name}.".startswith(f"{each}.")}
        assert name in known or inside, name
    # Every chart has `global`, whether it wants it or not.
    assert known - set(values()) == set()
    assert "global" in free


def test_the_charts_variables_and_words_are_the_programs() -> None:
    text = template("statefulset.yaml")
    known = {environment_name(name) for name in OPTIONS}
    used = set(re.findall(r"- name: (FOREWARN_\w+)", text))
    assert used <= known
    assert "FOREWARN_STORE_URL" in used
    words = re.findall(r"^ +- (serve|--?[a-z-]+|/etc/\S+)$", text, re.MULTILINE)
    given = [each for each in words if not each.startswith("/etc/forewarn-tokens")]
    assert given[0] == "serve"
    parser.build(given).parse_args(given)


def test_the_chart_asks_for_pages_that_the_service_has() -> None:
    text = template("statefulset.yaml")
    assert set(re.findall(r'"path" "(/\w+)"', text)) == {"/healthz", "/readyz"}
    api = (ROOT / "docs" / "api.md").read_text("utf-8")
    assert "/healthz" in api
    assert "/readyz" in api


def test_the_page_sets_values_that_there_are() -> None:
    text = PAGE.read_text("utf-8")
    keys = re.findall(r"--set(?:-file)? '?([\w.]+)=", text)
    assert len(keys) > 4
    assert set(keys) <= set(values())


def test_there_is_never_a_second_pod() -> None:
    assert "\n  replicas: 1\n" in template("statefulset.yaml")
    assert "replica" not in (CHART / "values.yaml").read_text("utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("drawn", DRAWN)
def test_helm_takes_the_chart(drawn: str) -> None:
    program = shutil.which("helm")
    if program is None:
        pytest.skip("helm is not installed")
    for words in (("lint", "--strict", CHART), ("template", "forewarn", CHART)):
        done = subprocess.run(
            [program, *words, *DRAWN[drawn]],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("setting", ["hostNetwork=true", "admin.tlsSecret=tls"])
def test_helm_refuses_what_needs_tokens(setting: str) -> None:
    program = shutil.which("helm")
    if program is None:
        pytest.skip("helm is not installed")
    done = subprocess.run(
        [program, "template", "forewarn", CHART, "--set", setting],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert "admin.tokens or admin.existingSecret" in done.stderr
