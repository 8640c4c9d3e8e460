"""The settings for the local agent of Consul or Nomad."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forewarn.agent.integrations.api import TokenApi
from forewarn.agent.options import Forms
from forewarn.clock import Clock
from forewarn.settings.forms import Option


def local_agent(
    more: Mapping[str, Any], clock: Clock, *, url: str, header: str
) -> TokenApi:
    """Return a client of the local agent that the settings name."""
    return TokenApi(
        more.get("url", url),
        header=header,
        token_file=more.get("token_file", ""),
        clock=clock,
        ca_file=more.get("ca_file", ""),
        cert_file=more.get("cert_file", ""),
        key_file=more.get("key_file", ""),
    )


def connection_keys(name: str, url: str) -> Mapping[str, Option]:
    """Return the keys for the connection to the local agent."""
    return {
        "url": Option(
            form=Forms.WEB,
            text=f"The URL of {name}'s agent on this machine. Default: `{url}`.",
        ),
        "token_file": Option(
            form=Forms.TEXT,
            may_be_empty=True,
            text="A file with the ACL token on its first line. Default: no token.",
        ),
        "ca_file": Option(
            form=Forms.TEXT,
            may_be_empty=True,
            text="The certificates to trust if the URL is https. Default: those of the "
            "system.",
        ),
        "cert_file": Option(
            form=Forms.TEXT,
            may_be_empty=True,
            text="A client certificate, if the agent requires one. Default: none.",
        ),
        "key_file": Option(
            form=Forms.TEXT,
            may_be_empty=True,
            text="The key of the client certificate. Default: it is in the same file.",
        ),
    }
