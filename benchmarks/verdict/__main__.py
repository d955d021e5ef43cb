"""`python benchmarks/verdict`: see `--help`."""

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
        from verdict.child import rows_of_job

        for row in rows_of_job(job):
            print("\nROW " + json.dumps(row), flush=True)
    else:
        from verdict.cli import main

        main()
