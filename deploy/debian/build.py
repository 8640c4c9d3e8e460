"""Build the Debian packages: `python -m deploy.debian.build dist`.

`forewarn-agent` has only the agent, for any architecture. `forewarn` has everything. Its
dependencies are in a separate directory, so that no package of the system is replaced:
the releases in requirements/run.txt, checked against their hashes.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from deploy import bundle, manual
from deploy.debian import licences
from deploy.debian.stage import PROGRAM, Moment, Stage
from forewarn import __version__
from forewarn.agent import installing
from forewarn.cli import completion

ROOT = Path(__file__).resolve().parents[2]
TEXTS = ROOT / "deploy" / "debian"
DOCS = ROOT / "docs"
EVENTS = ROOT / "examples" / "agent" / "events.json"
PINS = ROOT / "requirements" / "run.txt"
AGENT_DOCS = (
    DOCS / "tutorials" / "protect-a-service.md",
    DOCS / "reference" / "agent-settings.md",
    DOCS / "reference" / "metrics.md",
    DOCS / "explanation" / "agent-decisions.md",
    DOCS / "explanation" / "event-lifecycle.md",
)
"""Pages in the agent's package in addition to the agent's guides."""

MAINTAINER = "The forewarn maintainers <maintainers@forewarn.invalid>"
"""The maintainer of a package without DEBFULLNAME and DEBEMAIL."""

LONG_AGO = 315532800
"""1980-01-01: the time of a source without git and without the variable."""

AGENT_DIRECTORY = "/usr/lib/forewarn-agent"
SERVICE_DIRECTORY = "/usr/lib/forewarn"
SYSTEM_PYTHON = "/usr/bin/python3"

AGENT_PAGES = ("forewarn-agent.1", "forewarn-agent.toml.5")
SERVICE_PAGES = ("forewarn.1", "forewarn.toml.5")

AGENT_LAUNCHER = f"""\
#!{SYSTEM_PYTHON} -I
import sys

sys.path.insert(0, "{AGENT_DIRECTORY}")

from forewarn.agent.__main__ import main

sys.exit(main())
"""
SERVICE_LAUNCHER = f"""\
#!{SERVICE_DIRECTORY}/bin/python3 -P
import sys

from forewarn.cli import main

sys.exit(main())
"""
UNPACKERS_NOTES = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json")
"""Files that pip adds to a distribution and that depend on the place of the build."""


def debian_version(version: str) -> str:
    """Return a version in Debian's notation, so that 0.1.0.dev0 sorts before 0.1.0."""
    for word in (".dev", "a", "b", "rc"):
        version = version.replace(word, f"~{word.strip('.')}")
    return version


def source_moment() -> Moment:
    """Return SOURCE_DATE_EPOCH, or the time of the checked-out commit."""
    told = os.environ.get("SOURCE_DATE_EPOCH")
    if told:
        return Moment(seconds=int(told))
    git = shutil.which("git")
    if git is not None and (ROOT / ".git").exists():
        asked = [git, "-C", str(ROOT), "log", "-1", "--format=%ct"]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return Moment(seconds=int(done.stdout))
    return Moment(seconds=LONG_AGO)


def maintainer() -> str:
    """Return the maintainer, from the variables of Debian's tools."""
    name, mail = os.environ.get("DEBFULLNAME"), os.environ.get("DEBEMAIL")
    return f"{name} <{mail}>" if name and mail else MAINTAINER


def build_agent(dist: Path, work: Path) -> Path:
    """Build the package of the agent."""
    stage = _stage("forewarn-agent", "all", work)
    for name, data in {**bundle.sources(), **bundle.bundled()}.items():
        stage.put(f"{AGENT_DIRECTORY}/{name}", data)
    bundled = licences.stanzas(bundle.bundled_directory(), AGENT_DIRECTORY)
    stage.put("/usr/bin/forewarn-agent", AGENT_LAUNCHER, mode=PROGRAM)
    _put_unit(
        stage,
        installing.unit(
            ["/usr/bin/forewarn-agent", "--config", "/etc/forewarn/agent.toml"]
        ).replace("StateDirectory=forewarn\n", "StateDirectory=forewarn-agent\n"),
    )
    stage.put_conffile("/etc/forewarn/agent.toml", stage.own("agent.toml"))
    _put_pages(stage, AGENT_PAGES)
    _put_completions(stage, completion.AGENT_PROGRAM)
    pages = {*AGENT_DOCS, *(DOCS / "how-to" / "agent").rglob("*.md")}
    stage.put_documents(_changes(), dict(_documents(pages)), bundled=bundled)
    return stage.build(dist, {"oldest": ".".join(map(str, bundle.OLDEST))})


def build_service(dist: Path, work: Path) -> Path:
    """Build the package of the service, for this machine's architecture and Python."""
    stage = _stage("forewarn", _said("dpkg", "--print-architecture"), work)
    major, minor = _python()
    home = f"{SERVICE_DIRECTORY}/lib/python{major}.{minor}/site-packages"
    _install_pins(stage.directory / home[1:], f"{major}.{minor}")
    bundled = licences.stanzas(stage.directory / home[1:], home)
    _forget_place(stage.directory / home[1:])
    for file in sorted((ROOT / "src").rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            name = file.relative_to(ROOT / "src").as_posix()
            stage.put(f"{home}/{name}", file.read_bytes())
    # A virtual environment, so that child processes find the same modules.
    stage.put(
        f"{SERVICE_DIRECTORY}/pyvenv.cfg",
        "home = /usr/bin\ninclude-system-site-packages = false\n"
        f"version = {major}.{minor}\n",
    )
    stage.link(f"{SERVICE_DIRECTORY}/bin/python3", "../../../bin/python3")
    stage.put(f"{SERVICE_DIRECTORY}/bin/forewarn", SERVICE_LAUNCHER, mode=PROGRAM)
    stage.link("/usr/bin/forewarn", "../lib/forewarn/bin/forewarn")
    unit = (ROOT / "deploy" / "systemd" / "forewarn.service").read_text("utf-8")
    _put_unit(stage, unit.replace("/opt/forewarn/bin/", "/usr/bin/"))
    stage.put_conffile("/etc/forewarn/forewarn.toml", stage.own("forewarn.toml"))
    unit = (ROOT / "deploy" / "systemd" / "forewarn-relay.service").read_text("utf-8")
    stage.put(
        "/lib/systemd/system/forewarn-relay.service",
        unit.replace("/opt/forewarn/bin/", "/usr/bin/"),
    )
    stage.put_conffile("/etc/forewarn/relay.toml", stage.own("relay.toml"))
    _put_pages(stage, SERVICE_PAGES)
    _put_completions(stage, completion.PROGRAM)
    stage.put_documents(
        _changes(),
        dict(_documents(DOCS.rglob("*.md"))),
        bundled=bundled,
    )
    bounds = {"python": f"{major}.{minor}", "next_python": f"{major}.{minor + 1}"}
    return stage.build(dist, bounds)


def _stage(name: str, architecture: str, work: Path) -> Stage:
    return Stage(
        name=name,
        version=debian_version(__version__),
        architecture=architecture,
        maintainer=maintainer(),
        moment=source_moment(),
        directory=work / name,
        texts=TEXTS,
    )


def _put_unit(stage: Stage, text: str) -> None:
    stage.put(f"/lib/systemd/system/{stage.name}.service", text)


def _put_pages(stage: Stage, names: Sequence[str]) -> None:
    found = manual.pages()
    for name in names:
        stage.put_packed(f"/usr/share/man/man{name[-1]}/{name}", found[name])


def completion_places(program: str) -> dict[str, str]:
    """Return the path of a program's completions for each shell."""
    return {
        "bash": f"/usr/share/bash-completion/completions/{program}",
        "zsh": f"/usr/share/zsh/vendor-completions/{completion.function_of(program)}",
        "fish": f"/usr/share/fish/vendor_completions.d/{program}.fish",
    }


def _put_completions(stage: Stage, program: str) -> None:
    for shell, place in completion_places(program).items():
        stage.put(place, completion.script(shell, program))


def _changes() -> str:
    return (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def _documents(pages: Iterable[Path]) -> Iterator[tuple[str, bytes]]:
    """Yield pages, and the example document at the path that they link to."""
    for page in (*sorted(pages), EVENTS):
        yield page.relative_to(ROOT).as_posix(), page.read_bytes()


def _python() -> tuple[int, int]:
    """Return the version of the system's Python, which selects the pins."""
    version = _said(
        SYSTEM_PYTHON, "-c", "import sys; print(*sys.version_info[:2], sep='.')"
    )
    major, minor = map(int, version.split("."))
    return major, minor


def _install_pins(home: Path, version: str) -> None:
    """Install the service's dependencies into a directory, without build-specific files."""
    home.mkdir(parents=True)
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "-qq", "--no-compile"),
            *("--disable-pip-version-check", "--no-input", "--no-warn-conflicts"),
            *("--require-hashes", "-r", PINS, "--target", home),
            *("--only-binary=:all:", "--implementation=cp"),
            f"--python-version={version}",
        ],
        check=True,
    )
    shutil.rmtree(home / "bin", ignore_errors=True)
    for file in home.rglob("*"):
        if file.is_file():
            file.chmod(0o644)


def _forget_place(home: Path) -> None:
    """Remove files of pip that depend on the place of the build."""
    for notes in home.glob("*.dist-info"):
        for name in UNPACKERS_NOTES:
            (notes / name).unlink(missing_ok=True)


def _said(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def main() -> int:
    """Build the packages named by the arguments, and print their paths."""
    parser = argparse.ArgumentParser(description="Build the Debian packages.")
    parser.add_argument("dist", type=Path, help="the directory that they are put into")
    builders = {"forewarn-agent": build_agent, "forewarn": build_service}
    parser.add_argument("--only", choices=(*builders,), help="build this one only")
    arguments = parser.parse_args()
    if shutil.which("dpkg-deb") is None:
        print("no dpkg-deb here: Debian packages are built on Debian", file=sys.stderr)
        return 1
    for name, build in builders.items():
        if arguments.only in {None, name}:
            with tempfile.TemporaryDirectory() as work:
                try:
                    print(build(arguments.dist, Path(work)))
                except subprocess.CalledProcessError as error:
                    # The program has already printed the problem.
                    print(f"{name} was not built: {error}", file=sys.stderr)
                    return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
