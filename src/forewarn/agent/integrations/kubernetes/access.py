"""Finds out where the API server is, and what to say to be let in.

Within a pod that is the mounted service account; elsewhere a kubeconfig with a token.
Tokens are rotated, so a file with one is read anew for each request. What a
kubeconfig asks for and is not known here, such as an exec plugin, is refused in a
sentence. It knows no node and no pod.
"""

from __future__ import annotations

import base64
import json
import os
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from forewarn.agent import secrets
from forewarn.agent.foreign import members, objects
from forewarn.agent.handlers.run_context import HandlerError
from forewarn.agent.handlers.secret import exposure
from forewarn.agent.integrations.api import Api
from forewarn.agent.integrations.kubernetes.yaml import YAML_CHARACTERS_MAX, YamlError
from forewarn.agent.integrations.kubernetes.yaml import read as read_yaml
from forewarn.agent.wire.urls import parse_url
from forewarn.clock import Clock
from forewarn.protocol.frozen import frozen_dataclass
from forewarn.settings import files

ACCOUNT_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where each pod finds its service account."""

TOKEN_BYTES_MAX = 64 * 1024
"""Of a file with a token: a service account's has 1200."""

CA_BYTES_MAX = 1024 * 1024
"""Of a file of authorities: the machine's whole bundle has 220,000."""

_LOOPBACK = re.compile(r"localhost|::1|127(?:\.\d{1,3}){3}", re.ASCII)

_CLUSTER_KEYS = frozenset(
    {"server", "certificate-authority", "certificate-authority-data", "extensions"}
    | {"insecure-skip-tls-verify", "disable-compression"}
)
_USER_KEYS = frozenset(
    {"token", "tokenFile", "client-certificate", "client-key", "extensions"}
)
_HINT = "make a token for the agent (see the page 'Kubernetes') and name its file"


@frozen_dataclass
class Access:
    """The way to one API server."""

    server: str
    """Its URL."""
    token: Callable[[], str] | None
    """Reads the token anew, raises HandlerError; None: the certificate does."""
    ca_file: str = ""
    ca_text: str = ""
    """The authorities to trust, as a file or as PEM; both empty: the machine's."""
    cert_file: str = ""
    key_file: str = ""
    """The client's certificate and its key; empty: none."""
    origin: str = ""
    """`the service account of this pod`, or the file, for a sentence."""

    def api(self, clock: Clock) -> Api:
        """Return the server, ready to be asked."""
        return Api(
            self.server,
            clock=clock,
            headers=self._headers,
            ca_file=self.ca_file,
            ca_text=self.ca_text,
            cert_file=self.cert_file,
            key_file=self.key_file,
        )

    def _headers(self) -> Sequence[tuple[str, str]]:
        if self.token is None:
            return ()
        return (("Authorization", f"Bearer {self.token()}"),)


def find(
    kubeconfig: str, environment: Mapping[str, str], *, folder: str = ACCOUNT_FOLDER
) -> Access:
    """Return the way to the API server; raises HandlerError.

    `kubeconfig` is the file that the settings name; empty: this pod's account.
    """
    if kubeconfig:
        return _of_file(kubeconfig)
    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    port = environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise HandlerError(
            "it does not run in a pod (there is no KUBERNETES_SERVICE_HOST), "
            "and the settings name no kubeconfig"
        )
    authorities = os.path.join(folder, "ca.crt")
    _bytes(authorities, CA_BYTES_MAX, "the authorities of the service account")
    return Access(
        server=_server(f"https://{f'[{host}]' if ':' in host else host}:{port}"),
        token=_reader(os.path.join(folder, "token")),
        ca_file=authorities,
        origin="the service account of this pod",
    )


def usual_node(environment: Mapping[str, str]) -> str:
    """Return the name of this VM's node, where the settings do not say."""
    # As the kubelet does: a node's name has no capitals.
    return environment.get("NODE_NAME", "") or socket.gethostname().lower()


def warnings(kubeconfig: str) -> Sequence[str]:
    """Return what is careless about the file of the settings."""
    exposed = exposure(kubeconfig) if kubeconfig else ""
    return (exposed,) if exposed else ()


# A kubeconfig


def _of_file(path: str) -> Access:
    text = _bytes(path, YAML_CHARACTERS_MAX, "the kubeconfig")
    whole = members(_parsed(path, text.decode("utf-8", "replace")))
    current = whole.get("current-context")
    if not isinstance(current, str) or not current:
        raise HandlerError(f"{path} has no current-context")
    context = _named(path, whole, "contexts", current, "context")
    cluster_name = str(context.get("cluster") or "")
    cluster = _named(path, whole, "clusters", cluster_name, "cluster")
    user = _named(path, whole, "users", str(context.get("user") or ""), "user")
    folder = os.path.dirname(os.path.abspath(path))
    ca_file, ca_text = _authorities(path, cluster, folder)
    return Access(
        server=_server(str(cluster.get("server") or "")),
        token=_token(path, user, folder),
        ca_file=ca_file,
        ca_text=ca_text,
        cert_file=_file_of(user, "client-certificate", folder),
        key_file=_file_of(user, "client-key", folder),
        origin=path,
    )


def _parsed(path: str, text: str) -> object:
    try:
        if text.lstrip().startswith("{"):
            return json.loads(text)
        return read_yaml(text)
    except json.JSONDecodeError as error:
        raise HandlerError(f"{path}: line {error.lineno}: {error.msg}") from None
    except YamlError as error:
        raise HandlerError(f"{path}: {error}") from None


def _named(
    path: str, whole: Mapping[str, Any], part: str, name: str, inner: str
) -> Mapping[str, Any]:
    """Return the context, cluster or user of a name; raises HandlerError."""
    for entry in objects(whole.get(part)):
        if entry.get("name") == name:
            return members(entry.get(inner))
    raise HandlerError(f"{path} has no {inner} {name!r} in {part}")


def _authorities(path: str, cluster: Mapping[str, Any], folder: str) -> tuple[str, str]:
    for key in cluster:
        if key not in _CLUSTER_KEYS:
            raise HandlerError(f"{path}: the agent does not know {key} of a cluster")
    if cluster.get("insecure-skip-tls-verify") is True:
        raise HandlerError(
            f"{path}: insecure-skip-tls-verify would give the token to anybody: "
            "name the certificate-authority"
        )
    data = cluster.get("certificate-authority-data")
    if data:
        try:
            return "", base64.b64decode(str(data), validate=True).decode("ascii")
        except ValueError:
            raise HandlerError(
                f"{path}: certificate-authority-data is no certificate in base64"
            ) from None
    named = str(cluster.get("certificate-authority") or "")
    if not named:
        return "", ""
    file = os.path.join(folder, named)
    _bytes(file, CA_BYTES_MAX, "the certificate-authority")
    return file, ""


def _file_of(user: Mapping[str, Any], key: str, folder: str) -> str:
    named = str(user.get(key) or "")
    return os.path.join(folder, named) if named else ""


def _token(path: str, user: Mapping[str, Any], folder: str) -> Callable[[], str] | None:
    for key in user:
        if key not in _USER_KEYS:
            raise HandlerError(f"{path}: the agent does not log in with {key}: {_HINT}")
    file = user.get("tokenFile")
    if file:
        # As with kubectl, the file goes before the token.
        return _reader(os.path.join(folder, str(file)))
    token = str(user.get("token") or "")
    if not token and user.get("client-certificate"):
        return None
    if not token:
        raise HandlerError(f"{path} has neither a token nor a tokenFile: {_HINT}")
    secrets.hold(path, (token,))
    return lambda: token


def _reader(path: str) -> Callable[[], str]:
    def read() -> str:
        token = _bytes(path, TOKEN_BYTES_MAX, "the token").decode("ascii", "replace")
        token = token.strip()
        if not token:
            raise HandlerError(f"the token in {path} is empty")
        secrets.hold(path, (token,))
        return token

    return read


def _server(url: str) -> str:
    try:
        parsed = parse_url(url)
    except ValueError as error:
        raise HandlerError(f"the server of the cluster: {error}") from None
    if not parsed.is_secure and not _LOOPBACK.fullmatch(parsed.host):
        raise HandlerError(
            f"the server of the cluster, {parsed.base}, is no https: "
            "anybody on the way would read the token"
        )
    return url


def _bytes(path: str, most: int, what: str) -> bytes:
    try:
        return files.begin_of(path, most)
    except OSError as error:
        raise HandlerError(f"{what} cannot be read: {path}: {error.strerror}") from None
