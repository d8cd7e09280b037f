"""`python -m teamwright`: the command line, with the Python that runs it."""

import sys

from teamwright.cli.entry import main

if __name__ == "__main__":
    sys.exit(main())
