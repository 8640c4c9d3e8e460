"""A fake of a Pacemaker cluster, as its commands show it: executables over a file.

It knows what the handler asks `crm_node`, `crm_mon` and `crm_attribute`, with the
outputs and exit statuses of Pacemaker 2.1; `tests/real/test_pacemaker.py` holds the
handler to the real ones. Resources go where they may with each look at the cluster, so
that a story needs no clock. It is the programs too, and imports next to nothing, since
a test calls them many times.
"""

import marshal
import posix
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

NEVER = -1
"""Checks until a resource that never stops or starts by itself has moved."""

NO_RIGHT, NOT_THERE, DISCONNECTED = 4, 105, 102


class FakePacemaker:
    """A cluster of nodes; `environment` has its programs first in PATH."""

    def __init__(self, directory: "Path", *nodes: str) -> None:
        self.path = directory / "bin"
        self.path.mkdir()
        self.file = directory / "cluster.state"
        self._write(
            {
                "own": nodes[0],
                "nodes": {name: {"attributes": {}} for name in nodes},
                "options": {},
                "quorum": True,
                "dc": True,
                "resources": {},
                "calls": [],
                "away": 0,
                "next": [],
            }
        )
        # The programs do not import the package.
        from tests.support.compiled import compiled  # noqa: PLC0415

        script = compiled(__file__)
        for program in ("crm_node", "crm_mon", "crm_attribute"):
            file = self.path / program
            command = f'"{sys.executable}" -SEI "{script}" "{self.file}" {program}'
            file.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
            file.chmod(0o755)

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": f"{self.path}:/usr/bin:/bin"}

    def read(self) -> "dict[str, Any]":
        return _load(str(self.file))

    def _write(self, state: "dict[str, Any]") -> None:
        _save(str(self.file), state)

    def set(self, **more: "Any") -> None:
        """Set options, quorum, dc, away …"""
        self._write({**self.read(), **more})

    def node(self, name: str, **more: "Any") -> None:
        """Set what a node is: online, maintenance, pending …"""
        state = self.read()
        state["nodes"][name] |= more
        self._write(state)

    def attribute(self, node: str, name: str, value: str = "") -> None:
        """Set or remove an attribute, as an operator would."""
        state = self.read()
        attributes = state["nodes"][node]["attributes"]
        attributes[name] = {"value": value, "lifetime": "forever"}
        if not value:
            del attributes[name]
        self._write(state)

    def attributes(self, node: str) -> dict[str, str]:
        attributes = self.read()["nodes"][node]["attributes"]
        return {name: attribute["value"] for name, attribute in attributes.items()}

    def resource(self, resource_id: str, node: str = "", **more: "Any") -> None:
        """Have a resource.

        `leaves`: after how many looks it is stopped; `starts`: after how many more it
        runs elsewhere; `promoted`: its instance there runs already, and is promoted;
        `managed`, `blocked`: as in the cluster; `cloned`; `unhealthy`: it may stay.
        """
        state = self.read()
        node = node or state["own"]
        state["resources"][resource_id] = {
            "node": node,
            "leaves": 0,
            "starts": 0,
            **more,
        }
        self._write(state)

    def then(self, *changes: "dict[str, Any]") -> None:
        """Have something happen before each of the next looks at the cluster.

        Each is by node and attribute: `{"n2": {"standby": "on"}}`.
        """
        self.set(next=list(changes))

    def where(self, resource_id: str) -> str:
        return self.read()["resources"][resource_id]["node"]

    def orders(self) -> list[str]:
        """Return what was changed, in short."""
        changing = ("--update", "--delete")
        calls = [
            call for call in self.read()["calls"] if any(k in call for k in changing)
        ]
        return [call.removeprefix("crm_attribute ") for call in calls]


def _load(file: str) -> "dict[str, Any]":
    with open(file, "rb") as opened:  # noqa: PTH123 - see above
        return marshal.load(opened)


def _save(file: str, state: "dict[str, Any]") -> None:
    with open(f"{file}.new", "wb") as opened:  # noqa: PTH123
        marshal.dump(state, opened)
    posix.rename(f"{file}.new", file)


def _flag(value: object) -> str:
    return "true" if value else "false"


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")


class _Program:
    """One call of one of the programs."""

    def __init__(self, file: str, program: str, arguments: list[str]) -> None:
        self.file = file
        self.state: dict[str, Any] = _load(file)
        self.program = program
        self.words = arguments
        self.state["calls"].append(" ".join([program, *arguments]))

    def run(self) -> int:
        try:
            if self.state["away"]:
                self.state["away"] -= 1
                return self._away()
            if self.program == "crm_node":
                assert self.words == ["--name"]
                _print(self.state["own"])
                return 0
            if self.program == "crm_mon":
                assert self.words == ["--output-as=xml"]
                return self._mon()
            return self._attribute()
        finally:
            _save(self.file, self.state)

    def _away(self) -> int:
        if self.program == "crm_mon":
            why = "crm_mon: Connection to cluster failed: Connection refused"
            _print(
                '<pacemaker-result api-version="2.25">\n'
                f'  <status code="{DISCONNECTED}" message="Not connected">\n'
                f"    <errors><error>{why}</error></errors>\n"
                "  </status>\n</pacemaker-result>"
            )
        else:
            sys.stderr.write("Could not connect to the CIB: Connection refused\n")
        return self.state.get("away_status", DISCONNECTED)

    def _attribute(self) -> int:
        pairs = (word.removeprefix("--").partition("=") for word in self.words)
        options: dict[str, str] = {name: value for name, _, value in pairs}
        if options.get("type") == "crm_config":
            value = self.state["options"].get(options["name"])
            return self._say(value)
        attributes = self.state["nodes"][options["node"]]["attributes"]
        stored = attributes.get(options["name"])
        if "query" in options:
            return self._say(stored and stored["value"])
        if self.state.get("denied"):
            sys.stderr.write("Error performing operation: Permission denied\n")
            return NO_RIGHT
        if "update" in options:
            lifetime = options["lifetime"]
            attributes[options["name"]] = {
                "value": options["update"],
                "lifetime": lifetime,
            }
            return 0
        assert "delete" in options
        if stored and stored["lifetime"] == options["lifetime"]:
            del attributes[options["name"]]
        return 0

    def _say(self, value: str | None) -> int:
        if value is None:
            sys.stderr.write("Error performing operation: No such device or address\n")
            return NOT_THERE
        _print(value)
        return 0

    # The cluster

    def _hosts(self, name: str, resource: "dict[str, Any]") -> bool:
        node = self.state["nodes"][name]
        health = [
            attribute["value"]
            for key, attribute in node["attributes"].items()
            if key.startswith("#health") and attribute["value"] in {"red", "-1000000"}
        ]
        return (
            node.get("online", True)
            and "standby" not in node["attributes"]
            and (not health or resource.get("unhealthy", False))
        )

    def _go_on(self) -> None:
        """Bring each resource nearer to where it may run."""
        if self.state["next"]:
            for name, attributes in self.state["next"].pop(0).items():
                stored = self.state["nodes"][name]["attributes"]
                for key, value in attributes.items():
                    stored[key] = {"value": value, "lifetime": "forever"}
        if not self.state["quorum"] or self.state["options"].get("maintenance-mode"):
            return
        for resource in self.state["resources"].values():
            if resource["node"] and self._hosts(resource["node"], resource):
                continue
            if not resource.get("managed", True) or resource.get("blocked"):
                continue
            step = "leaves" if resource["node"] else "starts"
            if resource[step] > 0:
                resource[step] -= 1
            elif resource[step] == 0:
                resource["node"] = "" if resource["node"] else self._next_for(resource)

    def _next_for(self, resource: "dict[str, Any]") -> str:
        if resource.get("cloned"):
            return ""
        able = (name for name in self.state["nodes"] if self._hosts(name, resource))
        return next(able, "")

    def _mon(self) -> int:
        self._go_on()
        options = {"maintenance-mode": "false", "no-quorum-policy": "stop"}
        shown = {**options, **self.state["options"]}
        own = self.state["own"]
        lines = [
            '<pacemaker-result api-version="2.25" request="crm_mon --output-as=xml">',
            "  <summary>",
            '    <stack type="corosync" pacemakerd-state="running"/>',
            f'    <current_dc present="true" version="2.1.5" name="{own}" id="1" '
            f'with_quorum="{_flag(self.state["quorum"])}" mixed_version="false"/>'
            if self.state["dc"]
            else '    <current_dc present="false"/>',
            "    <cluster_options "
            + " ".join(f'{name}="{value}"' for name, value in shown.items())
            + "/>",
            "  </summary>",
            "  <nodes>",
            *(self._node(name) for name in self.state["nodes"]),
            "  </nodes>",
            "  <resources>",
            *self._resources(),
            "  </resources>",
            '  <status code="0" message="OK"/>',
            "</pacemaker-result>",
        ]
        _print("\n".join(lines))
        return 0

    def _node(self, name: str) -> str:
        node = self.state["nodes"][name]
        flags = {
            "online": node.get("online", True),
            "standby": "standby" in node["attributes"],
            "standby_onfail": False,
            "maintenance": node.get("maintenance"),
            "pending": node.get("pending"),
            "unclean": node.get("unclean"),
            "shutdown": False,
        }
        shown = " ".join(f'{key}="{_flag(value)}"' for key, value in flags.items())
        kind = node.get("type", "member")
        return f'    <node name="{name}" id="{name}" {shown} type="{kind}"/>'

    def _resources(self) -> list[str]:
        lines: list[str] = []
        for name, resource in self.state["resources"].items():
            copies = [
                (
                    resource["node"],
                    "Promoted" if resource.get("promoted") else "Started",
                )
            ]
            if resource.get("promoted"):
                copies += [
                    (node, "Unpromoted")
                    for node in self.state["nodes"]
                    if node != resource["node"] and self._hosts(node, resource)
                ]
            shown = [self._resource(name, resource, *copy) for copy in copies]
            if resource.get("cloned") or resource.get("promoted"):
                shown = [f'<clone id="{name}-clone">', *shown, "</clone>"]
            lines += shown
        return lines

    def _resource(
        self, name: str, resource: "dict[str, Any]", node: str, role: str
    ) -> str:
        flags = (
            f'active="{_flag(node)}" orphaned="false" '
            f'blocked="{_flag(resource.get("blocked"))}" '
            f'managed="{_flag(resource.get("managed", True))}" failed="false"'
        )
        agent = 'resource_agent="ocf:pacemaker:Dummy"'
        head = f'<resource id="{name}" {agent} role="{role if node else "Stopped"}" {flags}'
        if not node:
            return f'{head} nodes_running_on="0"/>'
        inner = f'<node name="{node}" id="{node}" cached="true"/>'
        return f'{head} nodes_running_on="1">{inner}</resource>'


if __name__ == "__main__":
    sys.exit(_Program(sys.argv[1], sys.argv[2], sys.argv[3:]).run())
