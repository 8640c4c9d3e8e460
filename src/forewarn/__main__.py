"""`python -m forewarn` is the same as the command `forewarn`."""

import sys

from forewarn import cli

if __name__ == "__main__":
    sys.exit(cli.main())
