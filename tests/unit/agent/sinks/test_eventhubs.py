"""Azure Event Hubs: the token, and what is sent with it."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.agent.core.model import NoteKind
from forewarn.agent.handlers.run_context import DeliveryError
from forewarn.agent.settings import AgentSettingsError, load_settings
from forewarn.agent.settings_model import NotifySettings
from forewarn.agent.sinks.eventhubs import KIND, EventHubsSink, sample, signed
from forewarn.clock import SystemClock, VirtualClock
from forewarn.instants import HOUR, MINUTE, SECOND
from tests.support.certificates import Certificate, certificate_in, needs_openssl
from tests.support.fake_hooks import Hook, Hub, hook
from tests.support.notes import AT, REBOOT, told_of

PUBLISHED = [
    # The tests of the Rust library fe2o3-amqp, made with a namespace of its own.
    (
        "amqps://fe2o3-amqp-example.servicebus.windows.net",
        "RootManageSharedAccessKey",
        "r9rdIglXNiIPN2Lgj/HyhgOuq+aGht0qH3n+/lYQhfo=",
        1667344375,
        "WOVqJi%2B2fowHpCC2g3ztxEQrYAU173BGWrkVaPlvPj4%3D",
    ),
    # The tests of Microsoft's Node SDK for IoT, which signs in the same way.
    (
        "uri",
        "encode('Me')",
        "password",
        12345,
        "kcWxXAK2OAaAoq2oCkaGzX2NMqDB8nCyNuq2fPYCDhk%3D",
    ),
]


@pytest.mark.parametrize(("resource", "name", "key", "expiry", "signature"), PUBLISHED)
def test_token_matches_published_examples(
    resource: str, name: str, key: str, expiry: int, signature: str
) -> None:
    token = signed(resource, key_name=name, key=key, expiry=expiry)
    assert f"&sig={signature}&se={expiry}&skn=" in token


def test_token_is_complete() -> None:
    assert signed("https://a.b/c", key_name="x y", key="k", expiry=7).startswith(
        "SharedAccessSignature sr=https%3A%2F%2Fa.b%2Fc&sig="
    )
    assert signed("https://a.b/c", key_name="x y", key="k", expiry=7).endswith(
        "&se=7&skn=x%20y"
    )


@needs_openssl
def test_openssl_signs_the_same() -> None:
    key, text = (
        "pässwörd/+=",
        "https%3A%2F%2Fns.servicebus.windows.net%2Fhub\n1795298400",
    )
    done = subprocess.run(
        [
            *("openssl", "dgst", "-sha256", "-binary", "-mac", "HMAC"),
            *("-macopt", f"hexkey:{key.encode().hex()}"),
        ],
        input=text.encode(),
        capture_output=True,
        check=True,
    )
    encoded = subprocess.run(
        ["openssl", "base64", "-A"], input=done.stdout, capture_output=True, check=True
    ).stdout.decode()
    quoted = encoded.replace("+", "%2B").replace("/", "%2F").replace("=", "%3D")
    token = signed(
        "https://ns.servicebus.windows.net/hub",
        key_name="send",
        key=key,
        expiry=1795298400,
    )
    assert f"&sig={quoted}&se=1795298400&skn=send" in token


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    file = tmp_path / "key"
    file.write_text("first\n")
    file.chmod(0o600)
    return file


def sink_of(key_file: Path, clock: Any, **more: Any) -> EventHubsSink:
    keys = {
        "namespace": "contoso",
        "hub": "hub",
        "key_name": "send",
        "key_file": str(key_file),
        "timeout": 5 * SECOND,
        **more,
    }
    settings = NotifySettings(kind="eventhubs", more=keys)
    assert KIND.name(settings) == f"eventhubs {keys['namespace']}/hub"
    sink = KIND.make(settings, clock)
    assert isinstance(sink, EventHubsSink)
    return sink


def test_token_is_reused_until_near_expiry_or_key_change(
    key_file: Path,
) -> None:
    sink = sink_of(key_file, VirtualClock(AT))
    first = sink.token(AT)
    assert "sr=https%3A%2F%2Fcontoso.servicebus.windows.net%2Fhub&" in first
    assert f"&se={(AT + HOUR) // SECOND}&" in first
    assert sink.token(AT + 49 * MINUTE) == first
    second = sink.token(AT + 50 * MINUTE)
    assert f"&se={(AT + 110 * MINUTE) // SECOND}&" in second
    # After the clock was set back, the token would be valid longer than servers accept.
    assert sink.token(AT - HOUR) not in {first, second}
    key_file.write_text("second\n")
    assert sink.token(AT) != first


# Over a socket


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return certificate_in(tmp_path_factory.mktemp("tls"))


class Scene:
    """An event hub, and an agent's receiver for it."""

    def __init__(self, there: Hook, hub: Hub, sink: EventHubsSink) -> None:
        self.there = there
        self.hub = hub
        self.sink = sink


@pytest.fixture
def scene(own: Certificate, key_file: Path) -> Iterator[Scene]:
    hub = Hub(resource="", keys={"send": "first"}, now=AT / SECOND)
    with hook(hub.judge, own.server()) as there:
        hub.resource = f"https://localhost:{there.port}/hub"
        sink = sink_of(
            key_file,
            # The clock of tokens is the service's; that of sockets runs.
            _At(AT),
            ca_file=str(own.certificate),
        )
        sink._resource = hub.resource
        yield Scene(there, hub, sink)


class _At(SystemClock):
    """A clock whose instants stand, and whose seconds run."""

    def __init__(self, instant: int) -> None:
        self.instant = instant

    def now(self) -> int:
        return self.instant


@pytest.mark.system
@needs_openssl
class TestOverASocket:
    @pytest.mark.parametrize("kind", NoteKind)
    def test_each_kind_is_sent_with_a_token(self, scene: Scene, kind: NoteKind) -> None:
        reports = told_of(kind, "why", handler="drain")
        scene.sink.deliver(17, reports)
        [request] = scene.there.taken
        assert request.json == reports.as_json(17)
        assert request.path == "/hub/messages?api-version=2014-01"
        assert request.headers["Content-Type"] == "application/json; charset=utf-8"

    def test_rotated_key_is_used_when_available(
        self, scene: Scene, key_file: Path
    ) -> None:
        scene.sink.deliver(1, told_of())
        scene.hub.keys["send"] = "second"
        with pytest.raises(
            DeliveryError, match="are the key and this machine"
        ) as raised:
            scene.sink.deliver(2, told_of())
        assert raised.value.may_pass
        assert "first" not in raised.value.message
        assert "sig=" not in raised.value.message
        key_file.write_text("second")
        scene.sink.deliver(2, told_of())
        assert len(scene.there.taken) == 2

    def test_wrong_clock_is_reported(self, scene: Scene) -> None:
        scene.hub.now += 2 * 3600
        with pytest.raises(DeliveryError, match=r"401.*clock right"):
            scene.sink.deliver(1, told_of())

    @pytest.mark.parametrize(
        ("status", "may_pass"),
        [
            (400, False),
            (403, True),
            (404, True),
            (413, False),
            (429, True),
            (500, True),
            (503, True),
        ],
    )
    def test_refusal_is_retried_if_it_may_be_temporary(
        self, scene: Scene, status: int, *, may_pass: bool
    ) -> None:
        scene.there.script = [(status, "no", {"Retry-After": "4"})]
        with pytest.raises(DeliveryError) as raised:
            scene.sink.deliver(1, told_of())
        assert (raised.value.may_pass, raised.value.wait) == (may_pass, 4 * SECOND)

    def test_check_connects_to_the_host_and_sends_nothing(
        self, scene: Scene, key_file: Path
    ) -> None:
        assert list(scene.sink.check()) == []
        key_file.chmod(0o640)
        scene.sink._ca_file = ""
        first, second = scene.sink.check()
        assert "no trusted connection" in first
        assert "other users can read" in second
        assert not scene.there.came


def test_sample_format_has_the_expected_fields() -> None:
    assert sample(told_of()) == {
        "EventId": REBOOT.event_id,
        "EventStatus": "Scheduled",
        "EventType": "Reboot",
        "ResourceType": "VirtualMachine",
        "Resources": "web_0",
        "NotBefore": "Sat,_21_Nov_2026_22:15:00_GMT",
        "Description": REBOOT.description,
        "EventSource": "Platform",
        "DurationInSeconds": 9,
        "Hostname": "web_0",
        "Time": "22:00:00",
        "Msg": "Scheduled Event was detected",
        "LogType": "DEBUG",
    }
    assert (
        sample(told_of(NoteKind.APPROVED))["Msg"] == "Scheduled Event was acknowledged"
    )
    assert sample(told_of(NoteKind.GONE))["Msg"] == "It is over."
    assert sample(told_of(NoteKind.FAILED, "x", notice=None))["Resources"] == ""


SOUND = {"namespace": "contoso", "hub": "h", "key_name": "send", "key_file": "/k"}


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        ({"namespace": "https://contoso"}, "is not a valid namespace or host"),
        ({"namespace": "contoso.example.com/x"}, "is not a valid namespace or host"),
        ({"namespace": "a@b"}, "is not a valid namespace or host"),
        ({"hub": "a/b"}, "is not a valid name of an event hub"),
        ({"key_name": "a&b"}, "is not a valid name of a policy"),
        ({"shape": "round"}, "must be one of whole, sample"),
    ],
)
def test_invalid_settings_are_reported(
    tmp_path: Path, keys: dict[str, str], fault: str
) -> None:
    file = tmp_path / "agent.toml"
    lines = [f'{key} = "{value}"' for key, value in {**SOUND, **keys}.items()]
    file.write_text('[[notify]]\nkind = "eventhubs"\n' + "\n".join(lines) + "\n")
    with pytest.raises(AgentSettingsError, match=fault):
        load_settings(file=str(file), environ={}, flags={})
