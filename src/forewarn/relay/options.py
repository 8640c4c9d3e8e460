"""The settings of relay.toml: form, bounds and meaning of each.

The table in `docs/reference/relay-settings.md` is generated from this module, so these
sentences are the reference.
"""

from collections.abc import Mapping

from forewarn.agent.wire.urls import Url, parse_url
from forewarn.fleet.validators import is_loopback, split_listener
from forewarn.instants import MINUTE, SECOND
from forewarn.problems import quoted
from forewarn.settings import forms
from forewarn.settings.forms import Form, Forms, Option
from forewarn.settings.log_options import LOG_OPTIONS

RATE_MAX = 1_000_000
"""Maximum requests per second: more than any machine can answer."""

LONGEST_WAIT_MAX = 10 * MINUTE
"""Maximum time of one wait for a change, as in the service."""

URLS_MAX = 9
"""Maximum services: each attempt to connect takes one of them."""


def _listener(option: Option, value: object) -> str:
    text = forms.line(option, value)
    if split_listener(text) is None:
        raise ValueError(
            f"{quoted(text)} is not a listen address: write HOST:PORT such as "
            "169.254.169.254:80"
        )
    return text


def _urls(option: Option, value: object) -> tuple[Url, ...]:
    urls = tuple(dict.fromkeys(map(_url, forms.texts(option, value))))
    if len(urls) > URLS_MAX:
        raise ValueError(f"must have at most {URLS_MAX} URLs, not {len(urls)}")
    return urls


def _url(text: str) -> Url:
    url = parse_url(text)
    if url.target not in {"", "/"}:
        raise ValueError(f"{quoted(text)} must end after the host and the port")
    if not url.is_secure and not (is_loopback(url.host) or url.host == "localhost"):
        raise ValueError(
            f"{quoted(text)} would send the token in clear text: write https://, and set "
            "tls_certificate in [admin] of forewarn.toml"
        )
    return url


OPTIONS: Mapping[str, Option] = {
    "url": Option(
        form=Form(
            expected='a URL in quotes, such as "https://control.example:8200", or a list',
            kind=(str, list),
            read=_urls,
            read_text=forms.with_commas,
            show=lambda value: ", ".join(url.base for url in value),
            metavar="URL",
        ),
        is_needed=True,
        text="URL of the operator API of the service, or a list of those of all replicas. The "
        "relay finds the one that leads, and the next one if that one has gone. Other hosts "
        "than this one need `https`.",
    ),
    "token_file": Option(
        form=Forms.LINE,
        text="File with the token of this host's relay: `forewarn token create --relay "
        "HOST`. It is read again before each request, so you can replace it while the "
        "relay runs.",
    ),
    "ca_file": Option(
        form=Forms.LINE,
        may_be_empty=True,
        text="File with the certificates that the service's certificate is checked with, "
        "in PEM. Empty: those of the system.",
    ),
    "listen": Option(
        form=Form(expected="HOST:PORT", kind=str, read=_listener, metavar="HOST:PORT"),
        text="Address at which the relay answers the VMs of this host. It identifies a "
        "VM by its source address.",
    ),
    "state": Option(
        form=Forms.LINE,
        text="File in which the relay remembers what it knows, so that it can answer "
        "after a restart while the service is away. Empty or missing: it waits for the "
        "service.",
    ),
    "stale_max": Option(
        form=Forms.DURATION,
        least=SECOND,
        may_be_empty=True,
        text="VMs get 503 after the service was silent for this time. Empty: the relay "
        "goes on answering from what it knows, and agents keep their view of the last "
        "document.",
    ),
    "rate_limit": Option(
        form=Forms.NUMBER,
        most=RATE_MAX,
        text="Maximum requests per second from one VM. Further requests get 429. `0`: no "
        "limit.",
    ),
    "push": Option(
        form=Forms.SWITCH,
        text="Whether a VM can ask for a response when its document changes, see "
        "[Extensions of the protocol](extensions.md#push-waiting-for-a-change). Use the "
        "value of the service.",
    ),
    "push_longest_wait": Option(
        form=Forms.DURATION,
        least=SECOND,
        most=LONGEST_WAIT_MAX,
        text="Maximum time of one wait for a change. Fractions of a second are ignored.",
    ),
    **LOG_OPTIONS,
}
