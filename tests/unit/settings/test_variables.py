"""Variables that look like typos of settings."""

from forewarn.settings.tables import slips


def test_only_typos_of_variables_are_reported() -> None:
    environ = {
        "TEST_LISTN": "x",
        "TEST_LISTEN": "x",
        "TEST_SERVICE_HOST": "192.0.2.1",
        "OTHER_LISTN": "x",
    }
    assert [*slips(environ, "TEST_", ["TEST_LISTEN"])] == [
        'the variable "TEST_LISTN" is not used (did you mean "TEST_LISTEN"?)'
    ]
