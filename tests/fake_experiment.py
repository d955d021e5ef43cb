"""An experiment without fits, whose jobs can be made to fail."""

import numpy as np

from sivi.experiments import Experiment, Job


class FakeExperiment(Experiment):
    name = "fake"
    title = "Nothing in particular"
    paper = "Table 0"
    full_seeds = 2

    def __init__(self, scale=2.0):
        self.scale = scale
        self.scales = {}  # of single targets
        self.errors = {}  # job name → exception to raise
        self.calls = []  # job name, and what it found in its scratch folder

    def jobs(self, mode, seeds):
        return [
            Job(f"{target}-{seed}", {"target": target, "seed": seed, "scale": self.scales.get(target, self.scale)})
            for seed in range(seeds)
            for target in ("one", "two", "three")
        ]

    def run_job(self, job, scratch):
        self.calls.append((job.name, sorted(path.name for path in scratch.iterdir())))
        (scratch / "half-way").touch()
        if job.name in self.errors:
            raise self.errors[job.name]
        value = job.settings["scale"] * len(job.settings["target"]) + job.settings["seed"]
        return {"value": value}, {"trace": np.linspace(0.0, value, 5)}

    def summary(self, results):
        return {"mean": float(np.mean([result.numbers["value"] for result in results.done]))}

    def figures(self, results):
        import matplotlib.pyplot as plt

        figure, ax = plt.subplots()
        for result in results.done:
            ax.plot(result.arrays["trace"])
        return {self.name: figure}

    def report(self, results):
        return " ".join(f"{result.job.name}={result.numbers['value']}" for result in results.done)
