"""The page of the operator API lists the requests of each role, as in the table."""

import re
from collections.abc import Iterator

import pytest

from forewarn.admin.access import DEMANDS, Demand
from forewarn.verbs.roles import TENANT_ROLES, Role
from forewarn.verbs.table import VERBS
from tests.support.pages import REFERENCE

PAGE = REFERENCE / "http-api.md"
BLOCK = re.compile(r"<!-- roles -->\n.*?<!-- /roles -->", re.DOTALL)


def _paths(*demands: Demand) -> str:
    paths = (
        route.removeprefix("POST /v1/")
        for route, demand in DEMANDS.items()
        if demand in demands and route.startswith("POST")
    )
    return ", ".join(f"`{path}`" for path in sorted(paths))


def _more(role: Role) -> Iterator[str]:
    for entry in VERBS.values():
        for argument in entry.arguments:
            if argument.role is role:
                yield f"`{entry.name}` with `{argument.key}`"


def _lines() -> Iterator[str]:
    yield "| role | for tenants too | allows | requests below `/v1/` |"
    yield "|---|---|---|---|"
    of_role = {
        role: tuple(
            demand
            for demand in Demand
            if demand.roles == (role,) and not demand.needs_all
        )
        for role in Role
    }
    for role, demands in of_role.items():
        also = "yes" if role in TENANT_ROLES else "no"
        posts = [_paths(*demands), *_more(role)]
        if role is Role.VIEW:
            posts = ["every GET", *posts]
        if role is Role.EMERGENCY:
            posts += ["`brake` with `on: false`", "`fleet/apply` with `allow_empty`"]
        shown = ", ".join(filter(None, posts))
        yield f"| `{role.value}` | {also} | {role.about} | {shown} |"
    stops, all_ = _paths(Demand.OPERATOR_STOPS), _paths(Demand.OPERATOR_ADMINISTERS)
    yield f"| any but `view` | no | stops planned work | {stops} |"
    yield f"| all | no | creates and revokes tokens | {all_} |"


def test_page_lists_the_requests_of_each_role(request: pytest.FixtureRequest) -> None:
    text = PAGE.read_text(encoding="utf-8")
    block = "\n".join(["<!-- roles -->", *_lines(), "<!-- /roles -->"])
    wanted, count = BLOCK.subn(lambda _: block, text)
    assert count == 1
    if request.config.getoption("--rewrite"):
        PAGE.write_text(wanted, encoding="utf-8")
        text = wanted
    assert text == wanted, "run `pytest --rewrite tests/house/test_roles.py`"
