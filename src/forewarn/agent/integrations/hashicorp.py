"""How Consul's and Nomad's agents on this machine are asked: alike, but for a header.

The token is read anew for each request, so that it can be changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from forewarn.agent.handlers.ground import Ground
from forewarn.agent.handlers.secret import read_secret
from forewarn.agent.integrations.api import Api
from forewarn.agent.options import Forms
from forewarn.agent.settings_model import HandlerSettings
from forewarn.settings.forms import Option

CHECK_SECONDS = 5.0
"""For all that `check` asks: a person waits."""


def local_agent(
    settings: HandlerSettings, ground: Ground, *, url: str, header: str
) -> Api:
    """Return who is asked by a handler; `header` is that of the token."""
    more = settings.more
    file: str = more.get("token_file", "")

    def headers() -> Sequence[tuple[str, str]]:
        return ((header, read_secret(file)),) if file else ()

    return Api(
        more.get("url", url),
        clock=ground.clock,
        headers=headers,
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
