"""The commands of the test kit: what other servers and clients are held to."""

from forewarn.cli.words import JSON, Command, Option

CONFORM = Command(
    path=("conform",),
    summary="check any endpoint against the protocol",
    text="Ask the endpoint at URL as a VM would, clause by clause, and report what was "
    "expected, what was seen, and what could not be tried. Nothing is approved unless "
    "--approve is given. The status is 1 if a clause is broken.",
    run="forewarn.cli.conform:conform",
    options=(
        Option(
            name="endpoint",
            metavar="URL",
            help="The endpoint, such as http://169.254.169.254.",
        ),
        Option(
            name="--approve",
            is_flag=True,
            help="Approve events too: at a real platform this starts their impact.",
        ),
        Option(
            name="--watch",
            metavar="DURATION",
            default="0s",
            help="Go on reading the document for so long, once a second, and judge "
            "how it changes; 0s if it is not given.",
        ),
        Option(
            name="--report",
            metavar="FILE",
            help="Also write the report: as JSON if FILE ends in .json, else Markdown.",
        ),
        JSON,
    ),
    examples=(
        "forewarn conform http://127.0.0.1:8301",
        "forewarn conform http://127.0.0.1:8301 --approve --watch 30s --report r.md",
    ),
)

TESTKIT = (CONFORM,)
