"""`python benchmarks/battery`: see `--help`."""

import json
import os
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # where this folder is a package
    if sys.argv[1:2] == ["--child"]:
        job = json.loads(sys.argv[2])
        if job["cores"]:  # before anything counts them
            os.sched_setaffinity(0, job["cores"])
        from battery.child import run_job

        print("\n" + json.dumps(run_job(job)))
    else:
        from battery.cli import main

        main()
