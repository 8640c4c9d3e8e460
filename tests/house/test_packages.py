"""Check that the files of packages agree: one version, one manual, existing paths.

Tests that need a build are in `tests/system/test_packages.py` and `tests/real`.
"""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from deploy import manual, roff
from deploy.debian import build
from forewarn import __version__
from forewarn.agent.settings import load_settings as load_agent
from forewarn.cli import completion
from forewarn.cli.commands import COMMANDS
from forewarn.service.settings import load_settings

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
INSTALL = ROOT / "docs" / "how-to" / "operate" / "install.md"
UNITS = DEPLOY / "systemd"

MEASURED = "systemd 252"
"""The version that the figures of docs/how-to/operate/install.md are from; others
differ."""

VERSION = re.compile(r"(?<![\d.])0\.\d+\.\d+(?:\.dev\d+)?\b(?!\.\d)")


# The manual


def test_manual_is_up_to_date(
    request: pytest.FixtureRequest,
) -> None:
    if request.config.getoption("--rewrite"):
        manual.write()
    wanted = manual.pages()
    files = {file.name: file.read_text("utf-8") for file in manual.DIRECTORY.iterdir()}
    assert files == wanted, "renew it: pytest --rewrite tests/house"


def test_the_manual_has_every_command() -> None:
    text = "".join(manual.pages().values())
    for command in COMMANDS:
        arguments = f"forewarn {command.name}".replace(
            "forewarn agent", "forewarn-agent"
        )
        assert f".SS {roff.literal(arguments)}\n" in text, arguments


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", sorted(manual.DIRECTORY.iterdir()), ids=lambda p: p.name
)
def test_manual_is_valid_roff(page: Path) -> None:
    program = shutil.which("groff")
    if program is None:
        pytest.skip("groff is not installed (Debian: apt install groff)")
    done = subprocess.run(
        # Long words make poor lines, which is allowed. No colors and no overstriking.
        [program, "-man", "-ww", "-Wbreak", "-k", "-Tutf8", "-P-cbou", page],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    assert "NAME" in done.stdout


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("`--dry-run` says", "\\fB\\-\\-dry\\-run\\fR says"),
        ("a **great** deal", "a \\fBgreat\\fR deal"),
        ("see [push.md](push.md#x)", "see push.md"),
        ("`a\\|b` and \\n", "\\fBa|\\:b\\fR and \\en"),
    ],
)
def test_markdown_is_converted_to_roff(text: str, wanted: str) -> None:
    assert roff.inline(text) == wanted


def test_markdown_pages_are_converted_to_roff() -> None:
    page = (
        "<!-- made -->\n\nOne.\n\n## The `first`\n\n### b\n\n- .x\n\n"
        "| key | default | meaning |\n|---|---|---|\n| `a` | empty | It. |\n\n"
        "```toml\n.a = '-'\n```\n"
    )
    assert list(roff.markdown(page)) == [
        *(".PP", "One.", '.SH "THE FIRST"', '.SS "b"', ".IP \\(bu 2", "\\&.x"),
        *(".TP", "\\fBa\\fR (default: empty)", "It."),
        *(".PP", ".RS 4", ".nf", "\\&.a = '\\-'", ".fi", ".RE"),
    ]


# Completions of the agent's own program


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_the_agents_program_has_completions(shell: str, tmp_path: Path) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    file = tmp_path / "_forewarn_agent"
    file.write_text(completion.script(shell, completion.AGENT_PROGRAM))
    asking = {
        "bash": f"source {file}; COMP_WORDS=(forewarn-agent try --a); COMP_CWORD=2\n"
        "_forewarn_agent; echo ${COMPREPLY[@]}",
        "zsh": f"autoload -Uz compinit; compinit -u -D; source {file}\n"
        "setopt ksharrays; COMP_WORDS=(forewarn-agent try --a); COMP_CWORD=2\n"
        "_forewarn_agent; echo ${COMPREPLY[@]}",
        "fish": f"source {file}; complete -C 'forewarn-agent try --a'",
    }[shell]
    flags = {"bash": "--norc", "zsh": "-f", "fish": "--no-config"}[shell]
    done = subprocess.run(
        [program, flags, "-c", asking],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TERM": "dumb"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    # Zsh leaves it to itself to sort out what does not begin so.
    assert "--at" in done.stdout.split()
    assert not done.stderr


# One version


def test_debian_versions_sort_like_ours() -> None:
    versions = ("0.1.0.dev0", "0.1.0a1", "0.1.0b2", "0.1.0rc1", "0.1.0", "0.1.1")
    debian_versions = [build.debian_version(version) for version in versions]
    assert debian_versions == [
        "0.1.0~dev0",
        "0.1.0~a1",
        "0.1.0~b2",
        "0.1.0~rc1",
        "0.1.0",
        "0.1.1",
    ]
    if shutil.which("dpkg") is None:
        pytest.skip("dpkg is not here to say how it sorts them")
    for less, more in zip(
        (debian_versions[1], *debian_versions[3:]), debian_versions[4:], strict=False
    ):
        command = ["dpkg", "--compare-versions", less, "lt", more]
        assert subprocess.run(command, check=False).returncode == 0, (less, more)


def test_charts_have_the_version_of_the_package() -> None:
    for file in DEPLOY.glob("helm/*/Chart.yaml"):
        text = file.read_text("utf-8")
        semantic = __version__.replace(".dev", "-dev")
        assert f"\nversion: {semantic}\n" in text, file
        assert f'\nappVersion: "{__version__}"\n' in text, file


def test_version_is_stated_in_no_other_file() -> None:
    places = [
        *DEPLOY.glob("docker/*/Dockerfile"),
        *DEPLOY.glob("debian/*/*"),
        *DEPLOY.glob("helm/*/templates/*"),
    ]
    assert places
    for file in places:
        if file.parent.name == "__pycache__":
            continue
        assert not VERSION.search(file.read_text("utf-8")), file


# Debian


def test_settings_of_the_packages_are_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    debian = DEPLOY / "debian"
    service = load_settings(
        file=debian / "forewarn" / "forewarn.toml", environ={}, flags={}
    )
    # Only this machine gets answers until the settings allow others.
    assert service.metadata.listen.startswith("127.0.0.1:")
    assert service.admin.listen.startswith("127.0.0.1:")
    agent_file = debian / "forewarn-agent" / "agent.toml"
    agent = load_agent(file=str(agent_file), environ={}, flags={})
    assert agent.watch.state == "/var/lib/forewarn-agent/agent.db"
    # Its examples can be used unchanged.
    text = agent_file.read_text("utf-8")
    example = re.sub(r"(?m)^# ?(?=\[|[a-z]+ = )", "", text)
    assert tomllib.loads(example)["handler"][0]["name"] == "pool"


def test_maintainer_scripts_run_in_any_shell() -> None:
    for name in ("forewarn", "forewarn-agent"):
        for script in ("postinst", "prerm", "postrm"):
            file = DEPLOY / "debian" / name / script
            assert file.read_text("utf-8").startswith("#!/bin/sh\nset -e\n"), file
            subprocess.run(["sh", "-n", file], check=True)
            # Nothing is started but by systemd's helper, which asks policy-rc.d.
            assert "systemctl start" not in file.read_text("utf-8")


def test_packages_and_tests_pin_the_same_dependencies() -> None:
    def pins(name: str) -> set[str]:
        text = (ROOT / "requirements" / name).read_text("utf-8")
        return set(re.findall(r"^([a-z0-9][\w.-]*==\S+)", text, re.MULTILINE))

    assert pins("run.txt") < pins("server.txt") <= pins("dev.txt")
    assert not {pin for pin in pins("run.txt") if pin.startswith("hatchling")}


# systemd's units


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["forewarn.service", "forewarn-agent.service"])
def test_exposure_of_the_units_matches_the_page(unit: str) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    version = subprocess.run(
        [program, "--version"], capture_output=True, text=True, check=True
    )
    if not version.stdout.startswith(f"{MEASURED} "):
        pytest.skip(f"the figures are of {MEASURED}; this is another")
    done = subprocess.run(
        [program, "security", "--offline=true", "--no-pager", UNITS / unit],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    match = re.search(r"exposure level for \S+: ([\d.]+)", done.stdout)
    assert match is not None
    row = re.search(rf"\| `{unit}` \| ([\d.]+) \|", INSTALL.read_text("utf-8"))
    assert row is not None
    assert row[1] == match[1]


def test_agent_unit_has_no_private_mounts() -> None:
    """A handler that unmounts a disk does so for the whole machine."""
    text = (UNITS / "forewarn-agent.service").read_text("utf-8")
    keys = {line.partition("=")[0] for line in text.splitlines() if "=" in line}
    own = {"ReadOnlyPaths", "ReadWritePaths", "InaccessiblePaths", "MountFlags"}
    assert not {key for key in keys if key.startswith(("Protect", "Private"))}
    assert not keys & (own | {"ProcSubset", "RestrictNamespaces", "RootDirectory"})


@pytest.mark.slow
def test_systemd_accepts_the_documented_unit_additions(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    unit = (UNITS / "forewarn-agent.service").read_text("utf-8")
    shown = re.findall(r"```ini\n(.*?)```", INSTALL.read_text("utf-8"), re.DOTALL)
    assert len(shown) > 1
    for block in shown:
        file = tmp_path / "forewarn-agent.service"
        text = unit.replace("/opt/forewarn/bin/forewarn", "/bin/true")
        file.write_text(f"{text}\n{block}")
        done = subprocess.run(
            [program, "verify", file], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), block


# The page


def test_page_names_only_existing_files() -> None:
    text = INSTALL.read_text("utf-8")
    named = set(re.findall(r"\b(?:deploy|requirements)/[\w./-]*\w", text))
    assert named
    for name in named:
        assert (ROOT / name).exists(), name


def test_page_names_only_existing_make_targets() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    text = INSTALL.read_text("utf-8")
    targets = re.findall(r"(?:^|`)make ([a-z]+)(?:`|$)", text, re.MULTILINE)
    assert targets
    for target in targets:
        assert f"\n.PHONY: {target}\n" in makefile, target


def test_completions_are_installed_where_the_page_says() -> None:
    text = INSTALL.read_text("utf-8")
    shown = re.findall(r"^forewarn completion (\w+) \| tee (\S+)$", text, re.MULTILINE)
    assert dict(shown) == build.completion_places(completion.PROGRAM)


def test_package_builder_has_a_help_text() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "deploy.debian.build", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "forewarn-agent" in done.stdout
