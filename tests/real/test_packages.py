"""The Debian package of the service, and both of them under lintian and systemd.

It is built with all that the service runs on, which takes minutes. They are installed
and purged by dpkg itself, in a throw-away root. The agent's alone, which is small, is in
`tests/system/test_packages.py`.
"""

import re
import subprocess
from pathlib import Path

import pytest

from deploy.debian import build
from forewarn import __version__
from tests.support import throwaway
from tests.support.packages import (
    PATIENCE_SECONDS,
    ROOT,
    check_places,
    deb,
    modules,
    run,
    same_again,
)
from tests.support.unpacked import find, needing

pytestmark = [
    pytest.mark.real,
    pytest.mark.long,
    pytest.mark.system,
    pytest.mark.slow,
    pytest.mark.timeout(300),
]


@pytest.fixture(scope="module")
def agent_deb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return deb("forewarn-agent", tmp_path_factory.mktemp("agent"))


@pytest.fixture(scope="module")
def service_deb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return deb("forewarn", tmp_path_factory.mktemp("service"))


def test_service_package_contains_its_dependencies(service_deb: Path) -> None:
    architecture = run("dpkg", "--print-architecture").strip()
    version = build.debian_version(__version__)
    assert service_deb.name == f"forewarn_{version}_{architecture}.deb"
    major, minor = build._python()
    home = f"/usr/lib/forewarn/lib/python{major}.{minor}/site-packages"
    paths = check_places(
        service_deb,
        (
            *("/usr/bin/forewarn", "/usr/lib/forewarn/bin/python3"),
            *("/etc/forewarn/forewarn.toml", "/lib/systemd/system/forewarn.service"),
            *(f"{home}/{module}" for module in modules()),
            *(f"{home}/{package}/" for package in ("fastapi", "httptools", "uvloop")),
            "/usr/share/man/man1/forewarn.1.gz",
            *build.completion_places("forewarn").values(),
        ),
    )
    # The programs that build and test it are not in it.
    assert not [path for path in paths if "/hatchling/" in path or "/pytest/" in path]
    # Of each distribution that is bundled there is its licence, or what names it.
    notes = {e for e in paths if e.endswith(".dist-info/METADATA")}
    pins = re.findall(r"^[a-z0-9][\w.-]*==", build.PINS.read_text(), re.MULTILINE)
    assert 10 < len(notes) <= len(pins)
    fields = run("dpkg-deb", "--field", service_deb)
    assert f"python3 (>= {major}.{minor}), python3 (<< {major}.{minor + 1})" in fields


def test_two_builds_are_the_same(service_deb: Path, tmp_path: Path) -> None:
    assert same_again("forewarn", service_deb, tmp_path)


LINTIAN_ALLOWED = (
    # It is not a package of Debian's, and has no person's address.
    "bogus-mail-host",
    # Bundled files equal, to the byte, those that their makers published.
    "unstripped-binary-or-object",
    "unusual-interpreter python [usr/lib/forewarn/lib/",
    # The package's own environment, as venv makes them.
    "wrong-path-for-interpreter /usr/lib/forewarn/bin/python3",
)
"""The complaints that lintian may have, and why; any other fails the test."""


@needing("lintian")
@pytest.mark.parametrize("fixture", ["agent_deb", "service_deb"])
def test_lintian_reports_nothing(fixture: str, request: pytest.FixtureRequest) -> None:
    package: Path = request.getfixturevalue(fixture)
    done = subprocess.run(
        [find("lintian"), "--allow-root", "--fail-on", "none", package],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    complaints = [
        line
        for line in done.stdout.splitlines()
        if not any(f": {allowed}" in line for allowed in LINTIAN_ALLOWED)
    ]
    assert not complaints, "\n".join(complaints)


SERVICE_STORY = """\
dpkg -i /packages/forewarn_*.deb
forewarn --version
id -un forewarn
test "$(stat -c '%U %a' /var/lib/forewarn)" = 'forewarn 700'
test -L /etc/systemd/system/multi-user.target.wants/forewarn.service
cd /var/lib/forewarn
runuser -u forewarn -- forewarn config check --config /etc/forewarn/forewarn.toml
runuser -u forewarn -- forewarn serve --config /etc/forewarn/forewarn.toml 2>/tmp/log &
for i in $(seq 200); do forewarn operations >/dev/null 2>&1 && break; sleep 0.1; done
cat >/tmp/fleet.toml <<'END'
[[tenant]]
name = "shop"
[[scope]]
name = "web"
tenant = "shop"
kind = "availability-set"
[[host]]
name = "h1"
[[vm]]
name = "web_0"
host = "h1"
scope = "web"
fault_domain = 0
listen = "127.0.0.1:8301"
END
forewarn fleet apply /tmp/fleet.toml
forewarn agent try /packages/events.json --vm web_0
url='http://127.0.0.1:8301/metadata/scheduledevents?api-version=2020-07-01'
ask() { python3 -c 'import sys, urllib.request as r
q = r.Request(sys.argv[1], headers={"Metadata": "true"})
print(r.urlopen(q, timeout=10).read().decode())' "$url"; }
for i in $(seq 50); do ask >/tmp/document 2>/dev/null && break; sleep 0.1; done
forewarn reboot web_0
ask | grep -c '"EventType":"Reboot"'
pkill -u forewarn -f 'forewarn serve'
wait
cat /tmp/log | tail -n 3
test -s /var/lib/forewarn/forewarn.db
dpkg --remove forewarn
test -s /var/lib/forewarn/forewarn.db
dpkg --purge forewarn
test ! -e /var/lib/forewarn
test ! -e /etc/forewarn
test -z "$(find /usr /etc/systemd /lib/systemd /var/lib/systemd -xdev -name '*forewarn*')"
echo THE END
"""


def test_service_package_is_installed_and_removed(
    service_deb: Path, tmp_path: Path
) -> None:
    message = throwaway.install(
        SERVICE_STORY,
        service_deb,
        ROOT / "examples" / "agent" / "events.json",
        place=tmp_path / "place",
        seconds=PATIENCE_SECONDS,
    )
    assert f"forewarn {__version__}" in message


SYSTEMD_STORY = """\
dpkg -i /packages/*.deb
active() {
    for i in $(seq 100); do
        test "$(systemctl is-active $1)" = active && return
        sleep 0.1
    done
    journalctl --no-pager -u $1
    return 1
}
pid() { systemctl show -p MainPID --value $1; }
mounts() { readlink /proc/$1/ns/mnt; }

# Debian packages start their services on installation. Each reports its readiness to
# systemd.
active forewarn
active forewarn-agent
test "$(stat -c %U /var/lib/forewarn/forewarn.db)" = forewarn
test "$(stat -c %U /var/lib/forewarn-agent/agent.db)" = root
forewarn operations
systemctl show -p StatusText forewarn forewarn-agent

# What a handler mounts is mounted for all; the service has mounts of its own.
test "$(mounts $(pid forewarn-agent))" = "$(mounts 1)"
test "$(mounts $(pid forewarn))" != "$(mounts 1)"

# An upgrade restarts it.
before=$(pid forewarn-agent)
dpkg -i /packages/forewarn-agent_*.deb
active forewarn-agent
test "$(pid forewarn-agent)" != "$before"

dpkg --purge forewarn-agent
test "$(systemctl is-active forewarn-agent)" = inactive
active forewarn
test -s /var/lib/forewarn/forewarn.db
forewarn operations
dpkg --purge forewarn
test "$(systemctl is-active forewarn)" = inactive
test ! -e /etc/forewarn
echo THE END
"""


def test_both_packages_run_under_systemd(
    agent_deb: Path, service_deb: Path, tmp_path: Path
) -> None:
    """On one machine, whose systemd starts and stops them as it should."""
    message = throwaway.boot(
        SYSTEMD_STORY,
        agent_deb,
        service_deb,
        place=tmp_path / "place",
        seconds=PATIENCE_SECONDS,
    )
    assert "StatusText=serving 0 VMs" in message
