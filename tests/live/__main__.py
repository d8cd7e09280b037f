"""Run the smoke test of each provider whose key is set, and say what was skipped: `python -m tests.live [NAME …]`."""

from __future__ import annotations

import asyncio
import os
import sys

from tests.live.providers import check_all

if __name__ == "__main__":
    sys.exit(asyncio.run(check_all(os.environ, sys.argv[1:])))
