"""How the settings say where the agent of Consul or Nomad on this machine is."""

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
    """Return the agent that the settings of a handler mean."""
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
    """Return the keys that say how to ask the agent of that name."""
    return {
        "url": Option(
            form=Forms.WEB,
            text=f"Where {name}'s agent on this machine is. Default: `{url}`.",
        ),
        "token_file": Option(
            form=Forms.TEXT,
            may_be_empty=True,
            text="A file with the ACL token on its first line. Default: none is sent.",
        ),
        "ca_file": Option(
            form=Forms.TEXT,
            may_be_empty=True,
            text="Certificates to trust where the agent is https. Default: the "
            "system's.",
        ),
        "cert_file": Option(
            form=Forms.TEXT,
            may_be_empty=True,
            text="A certificate to show to the agent, where it wants one. Default: none.",
        ),
        "key_file": Option(
            form=Forms.TEXT,
            may_be_empty=True,
            text="The certificate's key. Default: it is in the same file.",
        ),
    }
