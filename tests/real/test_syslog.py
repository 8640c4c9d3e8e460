"""Syslog beside a real rsyslog: by UDP, TCP, TLS and its socket."""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from forewarn.agent.core.model import NoteKind
from forewarn.agent.handlers.run_context import DeliveryError
from forewarn.agent.settings_model import NotifySettings
from forewarn.agent.sinks.port import Sink
from forewarn.agent.sinks.syslog import KIND
from forewarn.clock import SystemClock
from tests.support.agents import free_port
from tests.support.certificates import certificate_in, needs_openssl
from tests.support.notes import REBOOT, told_of
from tests.support.processes import eventually
from tests.support.unpacked import environment, find, needing

pytestmark = [
    pytest.mark.real,
    pytest.mark.system,
    pytest.mark.slow,
    needing("rsyslogd"),
]

CONFIG = """
global(workDirectory="DIRECTORY" processInternalMessages="on")
module(load="imudp")
module(load="imtcp")
module(load="imuxsock" SysSock.Use="off")
input(type="imudp" port="UDP" address="127.0.0.1")
input(type="imtcp" port="TCP" address="127.0.0.1")
input(type="imuxsock" Socket="DIRECTORY/log" useSpecialParser="off")
template(name="lines" type="string"
         string="%pri%|%hostname%|%app-name%|%msgid%|%structured-data%|%msg%\\n")
action(type="omfile" file="DIRECTORY/came" template="lines")
"""

SECURE = """
input(type="imtcp" port="TLS" address="127.0.0.1" streamDriver.name="ossl"
      streamDriver.mode="1" streamDriver.authMode="anon"
      streamDriver.caFile="DIRECTORY/certificate.pem"
      streamDriver.certFile="DIRECTORY/certificate.pem"
      streamDriver.keyFile="DIRECTORY/key.pem")
"""


class Line(NamedTuple):
    """One message, as rsyslog has parsed it."""

    priority: str
    host: str
    app: str
    kind: str
    data: str
    text: str


class Real:
    """An rsyslogd that writes what it understands."""

    def __init__(self, directory: Path) -> None:
        program = Path(find("rsyslogd"))
        root = program.parents[2]
        [modules] = {path.parent for path in root.glob("usr/lib/**/rsyslog/imudp.so")}
        self.has_tls = (modules / "lmnsd_ossl.so").exists()
        self.directory = directory
        self.ports = {name: free_port() for name in ("UDP", "TCP", "TLS")}
        config = CONFIG + (SECURE if self.has_tls else "")
        for name, port in self.ports.items():
            config = config.replace(f'"{name}"', f'"{port}"')
        (directory / "rsyslog.conf").write_text(
            config.replace("DIRECTORY", str(directory))
        )
        with (directory / "errors").open("wb") as errors:
            self.process = subprocess.Popen(
                [
                    *(str(program), "-n", "-i", "NONE", "-M", str(modules)),
                    *("-f", str(directory / "rsyslog.conf")),
                ],
                env=environment("rsyslogd"),
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
            )
        eventually((directory / "log").is_socket, bool, what="rsyslog's socket")

    def sink(self, address: str, **more: Any) -> Sink:
        for name, port in self.ports.items():
            address = address.replace(name, str(port))
        settings = NotifySettings(kind="syslog", more={"address": address, **more})
        return KIND.make(settings, SystemClock())

    def came(self) -> list[Line]:
        file = self.directory / "came"
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        all_lines = [Line(*line.split("|", 5)) for line in lines]
        return [line for line in all_lines if line.app == "forewarn-agent"]

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(120)


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Real]:
    certificate_in(tmp_path)
    new_real = Real(tmp_path)
    yield new_real
    new_real.end()


def tell(real: Real, sink: Sink) -> None:
    """Tell one note of each kind, and have rsyslog understand all of it."""
    eventually(sink.check, lambda faults: not faults)
    for number, kind in enumerate(NoteKind, start=1):
        sink.deliver(number, told_of(kind, 'a "b" ] \\ “c”', handler="drain"))
    lines = eventually(real.came, lambda came: len(came) == len(NoteKind))
    assert [line.kind for line in lines] == [kind.value for kind in NoteKind]
    assert {line.host for line in lines} == {"web_0"}
    seen, *_ = lines
    assert seen.priority == "29"
    assert seen.data.startswith('[forewarn@32473 number="1" kind="seen" id="')
    assert f'id="{REBOOT.event_id}" type="Reboot"' in seen.data
    assert seen.data.endswith(' resources="web_0,web_1" handler="drain"]')
    assert seen.text.removeprefix("\ufeff").startswith(
        "web_0: Reboot announced. It was"
    )
    assert seen.text.endswith(': a "b" ] \\ “c”')


@needs_openssl
@pytest.mark.parametrize("address", ["udp://127.0.0.1:UDP", "tcp://127.0.0.1:TCP"])
def test_rsyslog_parses_messages_over_the_network(real: Real, address: str) -> None:
    tell(real, real.sink(address))


@needs_openssl
def test_rsyslog_parses_messages_from_its_socket(real: Real) -> None:
    tell(real, real.sink(str(real.directory / "log")))


@needs_openssl
def test_rsyslog_parses_messages_over_tls(real: Real) -> None:
    if not real.has_tls:
        pytest.skip("needs the Debian package rsyslog-openssl: make real")
    address = "tls://localhost:TLS"
    tell(real, real.sink(address, ca_file=str(real.directory / "certificate.pem")))
    with pytest.raises(DeliveryError, match="no trusted connection"):
        real.sink(address).deliver(99, told_of())


@needs_openssl
def test_delivery_during_an_rsyslog_outage_can_be_retried(real: Real) -> None:
    sink = real.sink("tcp://127.0.0.1:TCP")
    sink.deliver(1, told_of())
    real.end()
    with pytest.raises(DeliveryError, match="connection refused") as raised:
        sink.deliver(2, told_of())
    assert raised.value.may_pass
