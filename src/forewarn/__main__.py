"""Run the command `forewarn` as `python -m forewarn`."""

import sys

from forewarn import cli

if __name__ == "__main__":
    sys.exit(cli.main())
