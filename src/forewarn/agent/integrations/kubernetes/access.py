"""Find the address of the API server and the credentials for it.

A pod uses its mounted service account. Outside a pod, a kubeconfig has the address and
a token or a certificate. Tokens are rotated, so a token file is read for each request.
Unsupported settings of a kubeconfig, such as an exec plugin, are an error. This module
does not know nodes or pods.
"""

from __future__ import annotations

import base64
import json
import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from forewarn.agent import secrets
from forewarn.agent.foreign import members, objects
from forewarn.agent.handlers.run_context import HandlerError
from forewarn.agent.handlers.secret import exposure, read_token
from forewarn.agent.integrations.api import Api
from forewarn.agent.integrations.kubernetes.yaml import YAML_CHARACTERS_MAX, YamlError
from forewarn.agent.integrations.kubernetes.yaml import read as read_yaml
from forewarn.agent.wire.urls import parse_url
from forewarn.clock import Clock
from forewarn.protocol.frozen import frozen_dataclass
from forewarn.settings import files

ACCOUNT_DIRECTORY = "/var/run/secrets/kubernetes.io/serviceaccount"
"""The directory of the service account in each pod."""

TOKEN_BYTES_MAX = 64 * 1024
"""Maximum size of a token file, in bytes; that of a service account has 1200."""

CA_BYTES_MAX = 1024 * 1024
"""Maximum size of a file of authorities, in bytes; a system's bundle has 220,000."""

_LOOPBACK = re.compile(r"localhost|::1|127(?:\.\d{1,3}){3}", re.ASCII)

_CLUSTER_KEYS = frozenset(
    {"server", "certificate-authority", "certificate-authority-data", "extensions"}
    | {"insecure-skip-tls-verify", "disable-compression"}
)
_USER_KEYS = frozenset(
    {"token", "tokenFile", "client-certificate", "client-key", "extensions"}
)
_HINT = "create a token for the agent (see the page 'Kubernetes') and set tokenFile"


@frozen_dataclass
class Access:
    """The address of one API server and the credentials."""

    server: str
    """The URL."""
    token: Callable[[], str] | None
    """Reads the token, raises HandlerError; None: a client certificate is used."""
    ca_file: str = ""
    ca_text: str = ""
    """The authorities to trust, as a file or as PEM; both empty: those of the system."""
    cert_file: str = ""
    key_file: str = ""
    """The client certificate and its key; empty: none."""
    origin: str = ""
    """`the service account of this pod`, or the file, for messages."""

    def api(self, clock: Clock) -> Api:
        """Return a client of the server."""
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
    kubeconfig: str,
    environment: Mapping[str, str],
    *,
    directory: str = ACCOUNT_DIRECTORY,
) -> Access:
    """Find the API server and the credentials; raises HandlerError.

    `kubeconfig` is the file of the settings; empty: the service account of this pod.
    """
    if kubeconfig:
        return _of_file(kubeconfig)
    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    port = environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise HandlerError(
            "the agent does not run in a pod (KUBERNETES_SERVICE_HOST is not set), "
            "and kubeconfig is not set"
        )
    authorities = os.path.join(directory, "ca.crt")
    _bytes(authorities, CA_BYTES_MAX, "the authorities of the service account")
    return Access(
        server=_server(f"https://{f'[{host}]' if ':' in host else host}:{port}"),
        token=_reader(os.path.join(directory, "token")),
        ca_file=authorities,
        origin="the service account of this pod",
    )


def usual_node(environment: Mapping[str, str]) -> str:
    """Return the default name of this VM's node."""
    # The kubelet also uses the host name in lower case.
    return environment.get("NODE_NAME", "") or socket.gethostname().lower()


def warnings(kubeconfig: str) -> Iterator[str]:
    """Yield a warning if other users can read the kubeconfig."""
    if kubeconfig and (exposed := exposure(kubeconfig)):
        yield exposed


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
    directory = os.path.dirname(os.path.abspath(path))
    ca_file, ca_text = _authorities(path, cluster, directory)
    return Access(
        server=_server(str(cluster.get("server") or "")),
        token=_token(path, user, directory),
        ca_file=ca_file,
        ca_text=ca_text,
        cert_file=_file_of(user, "client-certificate", directory),
        key_file=_file_of(user, "client-key", directory),
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


def _authorities(
    path: str, cluster: Mapping[str, Any], directory: str
) -> tuple[str, str]:
    for key in cluster:
        if key not in _CLUSTER_KEYS:
            raise HandlerError(f"{path}: the agent does not support {key} of a cluster")
    if cluster.get("insecure-skip-tls-verify") is True:
        raise HandlerError(
            f"{path}: insecure-skip-tls-verify would expose the token: set "
            "certificate-authority"
        )
    if data := cluster.get("certificate-authority-data"):
        try:
            return "", base64.b64decode(str(data), validate=True).decode("ascii")
        except ValueError:
            raise HandlerError(
                f"{path}: certificate-authority-data is not a certificate in base64"
            ) from None
    if not (named := str(cluster.get("certificate-authority") or "")):
        return "", ""
    file = os.path.join(directory, named)
    _bytes(file, CA_BYTES_MAX, "the certificate-authority")
    return file, ""


def _file_of(user: Mapping[str, Any], key: str, directory: str) -> str:
    named = str(user.get(key) or "")
    return os.path.join(directory, named) if named else ""


def _token(
    path: str, user: Mapping[str, Any], directory: str
) -> Callable[[], str] | None:
    for key in user:
        if key not in _USER_KEYS:
            raise HandlerError(f"{path}: the agent does not support {key}: {_HINT}")
    if file := user.get("tokenFile"):
        # As in kubectl, the file has priority over the token.
        return _reader(os.path.join(directory, str(file)))
    token = str(user.get("token") or "")
    if not token and user.get("client-certificate"):
        return None
    if not token:
        raise HandlerError(f"{path} has neither a token nor a tokenFile: {_HINT}")
    secrets.hold(path, (token,))
    return lambda: token


def _reader(path: str) -> Callable[[], str]:
    return partial(read_token, path, bytes_max=TOKEN_BYTES_MAX)


def _server(url: str) -> str:
    try:
        parsed = parse_url(url)
    except ValueError as error:
        raise HandlerError(f"the URL of the cluster's server: {error}") from None
    if not parsed.is_secure and not _LOOPBACK.fullmatch(parsed.host):
        raise HandlerError(
            f"the URL of the cluster's server, {parsed.base}, is not https, which "
            "would expose the token"
        )
    return url


def _bytes(path: str, bytes_max: int, subject: str) -> bytes:
    try:
        return files.begin_of(path, bytes_max)
    except OSError as error:
        raise HandlerError(
            f"{subject} cannot be read: {path}: {error.strerror}"
        ) from None
