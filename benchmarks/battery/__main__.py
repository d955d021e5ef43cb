"""`python benchmarks/battery`."""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # this folder is a package there
    from battery.references import make_all

    make_all(sys.argv[2:], 1.0)
