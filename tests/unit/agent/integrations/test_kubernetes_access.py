"""The way to an API server: a pod's service account, or a kubeconfig."""

import base64
import json
import ssl
from pathlib import Path
from typing import Any

import pytest

from forewarn.agent.handlers.run_context import HandlerError, RunEndedError, context_for
from forewarn.agent.integrations.api import Ask
from forewarn.agent.integrations.kubernetes import access
from forewarn.agent.integrations.kubernetes import yaml as kubernetes_yaml
from forewarn.clock import SystemClock
from tests.support.certificates import certificate_in, needs_openssl
from tests.support.fake_kubernetes import serving

CLOCK = SystemClock()

NODE = Ask(method="GET", path="/api/v1/nodes/web-0")

# As `kubectl config` writes it.
WRITTEN = """\
apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: {ca}
    server: https://127.0.0.1:6443
  name: here
- cluster:
    server: https://192.0.2.1
  name: elsewhere
contexts:
- context:
    cluster: here
    namespace: shop
    user: agent
  name: agent@here
current-context: agent@here
kind: Config
preferences: {}
users:
- name: agent
  user:
    token: eyJhbGciOi.JSUzI1NiIs-ImtpZCI_6IkE
"""
CA = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"
CA_DATA = base64.b64encode(CA.encode()).decode()


def file_of(directory: Path, text: str) -> str:
    file = directory / "kubeconfig"
    file.write_text(text, encoding="utf-8")
    return str(file)


def told(found: access.Access) -> str:
    """Return the token of a way."""
    assert found.token is not None
    return found.token()


def config(directory: Path, *, cluster: Any = None, user: Any = None) -> str:
    """Return a file as JSON, with another cluster or user."""
    whole = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster or {"server": "https://k"}}],
        "users": [{"name": "u", "user": user or {"token": "t"}}],
    }
    return file_of(directory, json.dumps(whole))


def test_kubeconfig_written_by_kubectl_is_read(tmp_path: Path) -> None:
    path = file_of(tmp_path, WRITTEN.replace("{ca}", CA_DATA))
    rights = access.find(path, {"KUBERNETES_SERVICE_HOST": "192.0.2.9"})
    assert rights.server == "https://127.0.0.1:6443"
    assert told(rights) == "eyJhbGciOi.JSUzI1NiIs-ImtpZCI_6IkE"
    assert (rights.ca_text, rights.ca_file, rights.origin) == (CA, "", path)


def test_token_file_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "ca.crt").write_text(CA)
    path = config(
        tmp_path,
        cluster={"server": "https://k", "certificate-authority": "ca.crt"},
        user={"tokenFile": "token", "token": "never"},
    )
    rights = access.find(path, {})
    assert rights.ca_file == str(tmp_path / "ca.crt")
    assert told(rights) == "first"
    (tmp_path / "token").write_text("second")
    assert told(rights) == "second"
    (tmp_path / "token").write_text(" \n")
    with pytest.raises(HandlerError, match="is empty"):
        told(rights)
    (tmp_path / "token").unlink()
    with pytest.raises(HandlerError, match=r"/token cannot be read: No such file"):
        told(rights)


def test_service_account_of_a_pod_is_used(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("of-the-pod")
    (tmp_path / "ca.crt").write_text(CA)
    environment = {
        "KUBERNETES_SERVICE_HOST": "fd00::1",
        "KUBERNETES_SERVICE_PORT": "6443",
    }
    rights = access.find("", environment, directory=str(tmp_path))
    assert rights.server == "https://[fd00::1]:6443"
    assert told(rights) == "of-the-pod"
    assert rights.origin == "the service account of this pod"
    (tmp_path / "ca.crt").unlink()
    with pytest.raises(HandlerError, match="the authorities of the service account"):
        access.find("", environment, directory=str(tmp_path))
    with pytest.raises(HandlerError, match="the agent does not run in a pod"):
        access.find("", {})


@pytest.mark.parametrize(
    ("cluster", "user", "told"),
    [
        (None, {"exec": {"command": "kubelogin"}}, "does not support exec"),
        (None, {"client-key-data": "x"}, "does not support client-key-data"),
        (None, {"client-key": "k.pem"}, "neither a token nor a tokenFile"),
        (None, {"username": "u", "password": "p"}, "does not support username"),
        (None, {"extensions": []}, "neither a token nor a tokenFile"),
        ({"server": "k:6443"}, None, "is not a URL"),
        ({"server": "http://k:6443"}, None, "http://k:6443, is not https"),
        ({"certificate-authority": "none.crt"}, None, "certificate-authority cannot"),
        ({"certificate-authority-data": "%%"}, None, "not a certificate in base64"),
        ({"insecure-skip-tls-verify": True}, None, "would expose the token"),
        ({"proxy-url": "http://p"}, None, "does not support proxy-url"),
        ({"tls-server-name": "k"}, None, "does not support tls-server-name"),
    ],
)
def test_unsupported_settings_are_refused(
    tmp_path: Path, cluster: Any, user: Any, told: str
) -> None:
    with pytest.raises(HandlerError, match=told) as error:
        access.find(config(tmp_path, cluster=cluster, user=user), {})
    assert "password" not in error.value.message


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "has no current-context"),
        ("- a\n", "has no current-context"),
        ("current-context: x\n", "has no context 'x' in contexts"),
        ("{", "line 1: "),
        ("a: &b c\n", "line 1 has an unsupported &"),
        ("current-context: x\ncontexts:\n- name: x\n", "has no cluster '' in clusters"),
    ],
)
def test_invalid_kubeconfig_is_refused(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(HandlerError, match=told):
        access.find(file_of(tmp_path, text), {})


def test_missing_kubeconfig_is_an_error(tmp_path: Path) -> None:
    path = str(tmp_path / "none")
    with pytest.raises(HandlerError, match="the kubeconfig cannot be read: "):
        access.find(path, {})
    assert list(access.warnings(path)) == []
    assert list(access.warnings("")) == []


@pytest.mark.slow
@needs_openssl
def test_client_certificate_may_replace_a_token(
    tmp_path: Path,
) -> None:
    certificate = certificate_in(tmp_path)
    context = certificate.server()
    # Requests without a token are rejected.
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(certificate.certificate)
    user = {
        "client-certificate": certificate.certificate.name,
        "client-key": certificate.key.name,
    }
    with serving(CLOCK, context) as fake:
        fake.add_node("web-0")
        fake.tokens = {""}
        cluster = {
            "server": fake.url,
            "certificate-authority": certificate.certificate.name,
        }
        way = access.find(config(tmp_path, cluster=cluster, user=user), {})
        assert way.token is None
        api = way.api(CLOCK)
        assert api.ask(NODE, context_for(5, CLOCK))["kind"] == "Node"


# The YAML that is read


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("# nothing\n---\n", None),
        (
            "a: b # c\nd: 'it''s' # e\nf: \"g\\u00e9\"  # h\n",
            {"a": "b", "d": "it's", "f": "gé"},
        ),
        ("a:\nb: null\nc: ~\nd: # e\n", {"a": None, "b": None, "c": None, "d": None}),
        ("a: true\nb: false\nc: 12\n", {"a": True, "b": False, "c": "12"}),
        ('a: {}\nb: []\n"c d": x#y\n', {"a": {}, "b": [], "c d": "x#y"}),
        ("- a\n-\n- - b\n  - c\n", ["a", None, ["b", "c"]]),
        (
            "a:\n- b: c\n  d:\n  - e\n-   f: g\n",
            {"a": [{"b": "c", "d": ["e"]}, {"f": "g"}]},
        ),
        ("a:\n  - b\n  -\n    c: d\n", {"a": ["b", {"c": "d"}]}),
        ("a: http://b:80/c\n", {"a": "http://b:80/c"}),
        ("  a:\n      b: c\n", {"a": {"b": "c"}}),
    ],
)
def test_yaml_written_by_kubectl_is_read(text: str, value: Any) -> None:
    assert kubernetes_yaml.read(text) == value


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: b\n\tc: d\n", "line 2 is indented with a tab"),
        ("a: b\n---\nc: d\n", "line 2 starts another document"),
        ("a: b\n  c: d\n", "line 2 has a different indentation"),
        ("a: b\nc\n", "line 2 is not a key"),
        ("a: b\na: c\n", "line 2 repeats a"),
        ("a: |\n  b\n", r"line 1 has an unsupported \|"),
        ("a: {b: c}\n", "line 1 has an unsupported {"),
        ("a: *b\n", r"line 1 has an unsupported \*"),
        ("a: b: c\n", "line 1 has two colons"),
        ("a: 'b\n", "line 1 has a quoted text without an end"),
        ("a: 'b' c\n", "line 1 has a quoted text without an end"),
        ('a: "b\n', "line 1 has a quoted text that is not valid"),
        ('a: "b" c\n', "line 1 has characters after"),
        ("a: b\n- c\n", "line 2 has a different indentation"),
        ("a" * (kubernetes_yaml.YAML_CHARACTERS_MAX + 1), "it has more than"),
    ],
)
def test_unsupported_yaml_is_rejected_with_its_line(text: str, told: str) -> None:
    with pytest.raises(kubernetes_yaml.YamlError, match=told):
        kubernetes_yaml.read(text)


# A server with a certificate


@pytest.mark.slow
@needs_openssl
def test_server_is_trusted_only_by_its_certificate_authority(tmp_path: Path) -> None:
    tls = certificate_in(tmp_path)
    certificate = tls.certificate
    (tmp_path / "ca.crt").write_bytes(certificate.read_bytes())
    (tmp_path / "token").write_text("old")
    with serving(CLOCK, tls.server()) as fake:
        fake.add_node("web-0")
        port = fake.url.rpartition(":")[2]
        environment = {
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": port,
        }
        api = access.find("", environment, directory=str(tmp_path)).api(CLOCK)
        fake.tokens = {"new"}
        with pytest.raises(HandlerError, match="was answered 401"):
            api.ask(NODE, context_for(5, CLOCK))
        # The kubelet has brought a new token; the same way has it at once.
        (tmp_path / "token").write_text("new")
        assert api.ask(NODE, context_for(5, CLOCK))["kind"] == "Node"

        cluster = {"server": fake.url}
        data = base64.b64encode(certificate.read_bytes()).decode()
        known = {**cluster, "certificate-authority-data": data}
        path = config(tmp_path, cluster=known, user={"token": "new"})
        api = access.find(path, {}).api(CLOCK)
        assert api.ask(NODE, context_for(5, CLOCK))["kind"] == "Node"
        path = config(tmp_path, cluster=cluster, user={"token": "new"})
        with pytest.raises(RunEndedError, match=r"no trusted connection|retrying"):
            access.find(path, {}).api(CLOCK).ask(NODE, context_for(1, CLOCK))
