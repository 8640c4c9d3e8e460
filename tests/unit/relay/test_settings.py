"""The settings of a relay: precedence, problems, and the reference page."""

from pathlib import Path

import pytest

from deploy import relay_reference
from forewarn.instants import MINUTE
from forewarn.relay.settings import RelaySettingsError, load_settings
from tests.support.pages import check_block

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "reference" / "relay-settings.md"


def load(text: str, tmp_path: Path, **environ: str) -> object:
    file = tmp_path / "relay.toml"
    file.write_text(text, encoding="utf-8")
    return load_settings(file=str(file), environ=environ, flags={})


def test_a_flag_overrides_a_variable_and_a_variable_the_file(tmp_path: Path) -> None:
    file = tmp_path / "relay.toml"
    file.write_text(
        'url = ["https://a.example:8200", "https://b.example:8200"]\n'
        'listen = "0.0.0.0:81"\nstate = "x"\n[log]\nlevel = "debug"\n',
        encoding="utf-8",
    )
    settings = load_settings(
        file=str(file),
        environ={"FOREWARN_RELAY_LISTEN": "0.0.0.0:82", "FOREWARN_RELAY_STATE": "y"},
        flags={"state": "z", "stale_max": "15m"},
    )
    assert [url.base for url in settings.url] == [
        "https://a.example:8200",
        "https://b.example:8200",
    ]
    assert (settings.listen, settings.state) == ("0.0.0.0:82", "z")
    assert settings.stale_max == 15 * MINUTE
    assert settings.log_level == "debug"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "url: is missing"),
        ('url = "http://control.example:8200"', "would send the token in clear text"),
        ('url = "https://control.example/v1"', "must end after the host and the port"),
        ('url = "ftp://x"', "relay.toml:1: url:"),
        ('url = "https://a"\nlisten = "here"', "relay.toml:2: listen:"),
        ('url = "https://a"\nstale_max = "0s"', "must be at least 1s"),
        ('url = "https://a"\nlistn = "0.0.0.0:80"', "did you mean"),
        (f"url = {[f'https://a{n}' for n in range(10)]}", "at most 9 URLs"),
    ],
)
def test_a_wrong_setting_is_refused_with_its_place(
    text: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(RelaySettingsError) as refused:
        load(text, tmp_path)
    assert message in refused.value.message


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8200", "http://[::1]:8200", "http://localhost:8200"]
)
def test_loopback_needs_no_certificate(url: str, tmp_path: Path) -> None:
    assert load(f'url = "{url}"', tmp_path)


def test_the_reference_page_has_every_setting(request: pytest.FixtureRequest) -> None:
    rewrite = bool(request.config.getoption("--rewrite"))
    check_block(PAGE, "settings", relay_reference.settings_table(), rewrite=rewrite)
