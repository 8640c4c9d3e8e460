"""The start of a worker: run by its path, on a Python of the machine.

It imports the package `worker` next to it, and nothing else of forewarn.
"""

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    # At the end, so that nothing here hides a module of the library.
    sys.path.append(str(Path(__file__).resolve().parent))
    main = runpy.run_module("worker.main")
    main["end"](main["main"](sys.argv[1:]))
