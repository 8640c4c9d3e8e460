"""The console's files, as a browser gets them."""

import re
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from forewarn.admin import limits
from forewarn.admin.app import create_app
from forewarn.admin.security import CONTENT_POLICY, HEADERS
from forewarn.admin.tokens import parse_tokens
from forewarn.console.assets import Asset, Assets, read_assets
from forewarn.console.pages import console_pages
from tests.unit.admin.gateway import LocalGateway

SECRET = "0123456789abcdef01234567"
BEARER = {"Authorization": f"Bearer {SECRET}"}


@pytest.fixture(scope="module")
def served() -> Iterator[TestClient]:
    tokens = parse_tokens(f"ops:{SECRET}", file="tokens")
    app = create_app(LocalGateway(), tokens=tokens, version="1", pages=console_pages())
    with TestClient(app, base_url="http://127.0.0.1:8200") as client:
        yield client


PRELOADED = re.compile(r'<link rel="modulepreload".*>\n')


def links_of(page: str) -> list[str]:
    return re.findall(r'(?:src|href)="([^"]+)"', page)


@pytest.mark.parametrize(
    "path",
    ["/console/", "/console/campaigns/c-1/report", "/console/wall", "/console/x"],
)
def test_each_page_is_the_shell_and_needs_no_token(
    served: TestClient, path: str
) -> None:
    answer = served.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    assert "{" not in answer.text
    # Only the modules that are fetched at once depend on the address.
    assert PRELOADED.sub("", answer.text) == PRELOADED.sub(
        "", served.get("/console/").text
    )


def test_path_without_slash_leads_to_the_console(served: TestClient) -> None:
    answer = served.get("/console", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (308, "/console/")


def test_files_of_the_shell_are_kept_for_good(served: TestClient) -> None:
    links = links_of(served.get("/console/").text)
    assert len(links) >= 2
    for link in links:
        answer = served.get(link)
        assert answer.status_code == 200, link
        assert answer.headers["cache-control"].endswith("immutable")
        tag = answer.headers["etag"]
        same = served.get(link, headers={"If-None-Match": tag})
        assert (same.status_code, same.content) == (304, b"")
        assert same.headers["cache-control"] == answer.headers["cache-control"]


def test_each_file_has_its_media_type(served: TestClient) -> None:
    directory = links_of(served.get("/console/").text)[0].rpartition("/")[0]
    for name, asset in read_assets().files.items():
        answer = served.get(f"{directory}/{name}")
        assert answer.content == asset.content
        assert answer.headers["content-type"].split(";")[0] == asset.media_type


@pytest.mark.parametrize(
    "name",
    [
        "{digest}/shell.html",
        "{digest}/pages.py",
        "{digest}/__init__.py",
        "{digest}/../pages.py",
        "{digest}/%2e%2e/pages.py",
        "{digest}/js/",
        "{digest}",
        "",
        "0123456789abcdef0123456789abcdef/js/main.js",
    ],
)
def test_no_other_file_of_the_package_is_served(served: TestClient, name: str) -> None:
    link = f"/console/assets/{name.format(digest=read_assets().digest)}"
    answer = served.get(link)
    assert answer.status_code == 404
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/console/", {}),
        ("/console/assets/0/js/main.js", {}),
        ("/", {}),
        ("/docs", {}),
        ("/docs/page.js", {}),
        ("/docs/page.css", {}),
        ("/openapi.json", {}),
        ("/healthz", {}),
        ("/v1/operations", {}),
        ("/v1/operations", BEARER),
        ("/v1/no-such-route", BEARER),
        ("/v1/operations/no-such-operation", BEARER),
    ],
)
def test_each_response_has_the_headers_of_security(
    served: TestClient, path: str, headers: dict[str, str]
) -> None:
    answer = served.get(path, headers=headers)
    for name, value in HEADERS.items():
        assert answer.headers.get_list(name) == [value], name
    if not path.startswith(("/console/", "/docs", "/openapi.json")) and path != "/":
        assert answer.headers["cache-control"] == "no-store"


def test_the_policy_admits_no_inline_code_no_other_server_and_no_frame() -> None:
    rules = {
        name: value
        for name, _, value in (
            directive.partition(" ") for directive in CONTENT_POLICY.split("; ")
        )
    }
    assert "unsafe" not in CONTENT_POLICY
    assert rules["default-src"] == rules["base-uri"] == "'none'"
    assert rules["frame-ancestors"] == "'none'"
    assert rules["script-src"] == rules["connect-src"] == "'self'"


def test_a_foreign_name_of_the_host_gets_no_page_without_tokens() -> None:
    app = create_app(LocalGateway(), tokens=None, version="1", pages=console_pages())
    client = TestClient(app, base_url="http://127.0.0.1:8200")
    assert client.get("/console/").status_code == 200
    for host in ("evil.example", "127.0.0.1.evil.example", "localhost:1@evil.example"):
        answer = client.get("/console/", headers={"Host": host})
        assert answer.status_code == 403, host


def test_one_address_cannot_load_files_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "FILES_AT_ONCE", 3)
    gateway = LocalGateway()
    tokens = parse_tokens(f"ops:{SECRET}", file="tokens")
    app = create_app(
        gateway,
        tokens=tokens,
        version="1",
        pages=console_pages(),
        clock=gateway.clock,
    )
    client = TestClient(app, base_url="http://127.0.0.1:8200")
    assert [client.get("/console/assets/0").status_code for _ in range(3)] == [404] * 3
    answer = client.get("/console/")
    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "1"
    # The files are not at the expense of the API's page.
    assert client.get("/docs").status_code == 200


def test_digest_depends_on_each_name_and_content() -> None:
    def assets(**files: str) -> Assets:
        return Assets(
            shell="",
            files={
                name: Asset(content=text.encode(), media_type="text/css")
                for name, text in files.items()
            },
        )

    digests = {
        assets().digest,
        assets(a="1").digest,
        assets(a="2").digest,
        assets(b="1").digest,
        assets(a="1", b="").digest,
        assets(a="", b="1").digest,
    }
    assert len(digests) == 6
    assert assets(a="1", b="2").digest == assets(b="2", a="1").digest
