"""A network on data with a gap: what `sivi.check` says of HMC's draws and of draws half as wide, and fits beside HMC.

    python benchmarks/bnn_gap.py [--keys 0 1 2 3 4] [--methods hmc fit infer] [--figure] [--resume] [--quick]
        [--note TEXT] [--output FILE]

Eighty rows of y = sin 2x + e, e ~ N(0, 0.15²), half of them with x in (−2, −0.7) and half in (0.7, 2). The network has
one hidden layer of 64 units, 193 weights, with fixed precisions. Every run is a process of its own, without compiled
programs of earlier ones. Seconds are those of the call, compiling included.

`hmc`: eight chains from random starts, and three verdicts: that of the run as it is, that of its draws as an array, and
that of draws whose functions have half the spread. Those are made draw by draw: weights near the draw's own, by
Gauss-Newton steps of least change, whose function lies halfway between the draw's function and the mean of all, at the
inputs that are judged and on a grid. `sd_ratio` says how far that was reached.

`fit`: plain `sivi.fit(model, key)`, its verdict, and its band of functions against that of HMC with the same key:
`rmse_of_mean` over the grid and over the gap, in the units of y, and inside the data in those of the noise; and ratios
of standard deviations over the gap and inside the data. Of the variance of the weights, `share_between_repeats` is that
between the means of repeats. Within a repeat, `last_layer_share` is the share of the variance of the last layer's
weights that comes from the weights of the first, which are mixed over; the rest is that of their exact conditional.

`infer`: plain `sivi.infer(model, key)`, which checks the fit and mends its draws by chains, beside HMC in the same way.
`floor` has the numbers of two runs of HMC.
"""

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import sivi
from _clock import Clock
from _common import RESULTS, environment, write
from _others import Others
from _processes import ROOT, cold, run_json
from sivi.samplers.diagnostics import effective_sample_size, split_rhat
from sivi.targets import BayesianNeuralNetwork

METHODS = ("hmc", "fit", "infer")
NUM_DATA, NOISE_SD, GAP, DATA_SEED, WIDTH = 80, 0.15, 0.7, 0, 64
GRID = np.linspace(-3.0, 3.0, 61)[:, None]
CHAINS, TRANSITIONS, WARMUP, LEAPFROG = 8, 2000, 1000, 64
QUICK_TRANSITIONS, QUICK_EFFORT, QUICK_STEPS = 300, 0.1, 200
#: Every so manieth draw of HMC is halved, by so many steps.
THINNED, NEWTON_STEPS = 8, 5
#: R-hat of every judged function value, at most.
MOST_RHAT = 1.05
BANDS = 4000


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(DATA_SEED)
    half = NUM_DATA // 2
    x = np.concatenate([rng.uniform(-2.0, -GAP, half), rng.uniform(GAP, 2.0, half)])
    return x[:, None], np.sin(2.0 * x) + NOISE_SD * rng.normal(size=NUM_DATA)


def network() -> BayesianNeuralNetwork:
    """Weights and biases of the first layer ~ N(0, 2), of the second ~ N(0, 1/8): functions of about unit size."""
    x, y = data()
    noise_precision = float(y.var() / NOISE_SD**2)  # targets are standardised
    precisions = {"noise_precision": noise_precision, "weight_precision": (0.5, 8.0)}
    return BayesianNeuralNetwork(x, y, hidden=(WIDTH,), activation="tanh", **precisions)


def run_job(job: dict[str, Any]) -> dict[str, Any]:
    """One method, once."""
    others, model = Others(), network()
    facts = {"hmc": by_hmc, "fit": by_fit, "infer": by_infer}[job["method"]](model, job)
    return job | _rounded(facts) | {"other_cores_in_use": round(others.cores(), 2)}


def by_hmc(model: BayesianNeuralNetwork, job: dict[str, Any]) -> dict[str, Any]:
    num = QUICK_TRANSITIONS if job["quick"] else TRANSITIONS
    warmup = QUICK_TRANSITIONS if job["quick"] else WARMUP
    start_key, key = jax.random.split(jax.random.key(job["key"]))
    init = np.stack([model.random_start(k) for k in jax.random.split(start_key, CHAINS)])
    clock = Clock()
    run = sivi.samplers.hmc(
        model,
        key=key,
        num_chains=CHAINS,
        num_samples=num,
        num_warmup=warmup,
        num_leapfrog=LEAPFROG,
        init=init,
        progress=False,
    )
    facts: dict[str, Any] = clock.read()
    functions = np.asarray(predicted(model, run.flat())).reshape(CHAINS, num, -1)
    facts |= {"weights": model.dim, "gradients": run.num_gradients, "divergences": run.divergences}
    facts |= {"rhat_f": np.max(split_rhat(functions)), "ess_f": np.min(effective_sample_size(functions))}
    facts |= {"rhat_weights": np.max(run.rhat), "ess_weights": np.min(run.ess)}
    facts["check_of_run"] = told(sivi.check(run, model, key=job["key"], effort=effort(job)))
    facts["check"] = told(sivi.check(np.asarray(run.draws), model, key=job["key"], effort=effort(job)))
    thinned = np.asarray(run.draws)[:, ::THINNED]
    narrow, ratios, shift = halved(model, thinned.reshape(-1, model.dim))
    verdict = sivi.check(narrow.reshape(thinned.shape), model, key=job["key"], effort=effort(job))
    facts["halved"] = {"sd_ratio": ratios, "largest_shift_of_a_mean": shift, "check": told(verdict)}
    return facts | {"band": band(model, run.flat())}


def by_fit(model: BayesianNeuralNetwork, job: dict[str, Any]) -> dict[str, Any]:
    settings = {"num_steps": QUICK_STEPS} if job["quick"] else {}
    clock = Clock()
    posterior = sivi.fit(model, key=job["key"], progress=False, **settings)
    draws = np.asarray(posterior.unconstrained(BANDS, key=job["key"]))
    facts: dict[str, Any] = clock.read()
    facts |= {"updates": posterior.step, "repeats": posterior.repeats}
    facts |= shares(posterior)
    facts["warnings"] = [str(remark) for remark in posterior.warnings]
    facts["check"] = told(posterior.check(key=job["key"], effort=effort(job)))
    return facts | {"band": band(model, draws)}


def by_infer(model: BayesianNeuralNetwork, job: dict[str, Any]) -> dict[str, Any]:
    settings = {"num_steps": QUICK_STEPS} if job["quick"] else {}
    clock = Clock()
    found = sivi.infer(model, key=job["key"], progress=False, **settings)
    draws = np.asarray(found.unconstrained(BANDS, key=job["key"]))
    facts: dict[str, Any] = clock.read()
    facts |= {"draws_of": found.source, "believed": found.believed, "check": told(found.verdict)}
    return facts | {"band": band(model, draws)}


def shares(posterior: sivi.Posterior) -> dict[str, float]:
    """Shares of variances: of all weights between repeats, and of the last layer's from the first, within repeats."""
    draws = jnp.asarray(posterior.unconstrained(BANDS // posterior.repeats, key=0, by_repeat=True))
    within, between = draws.var(axis=1).sum(axis=1), draws.mean(axis=1).var(axis=0).sum()
    outer, from_first = posterior.repeat(0).affine.outer, []
    mean_of_last = jax.jit(jax.vmap(lambda x: outer.given(x).mean))
    for one in draws:
        from_first.append(float(mean_of_last(one).var(axis=0).sum() / one[:, outer.places].var(axis=0).sum()))
    share = float(between / (between + within.mean()))
    return {"share_between_repeats": share, "last_layer_share": float(np.mean(from_first))}


def effort(job: dict[str, Any]) -> float:
    return QUICK_EFFORT if job["quick"] else 1.0


def told(verdict: sivi.Verdict) -> dict[str, Any]:
    """What a verdict says, in short."""
    return {
        "level": verdict.level,
        "findings": dict(Counter(f"{item.level} {item.kind}" for item in verdict.findings)),
        "worst": verdict.findings[0].sentence if verdict.findings else None,
        "memory": verdict.memory,
        "seconds": verdict.cost.seconds,
        "gradients": verdict.cost.gradients,
        "not_looked_at": list(verdict.not_looked_at),
    }


@jax.jit
def predicted(model: BayesianNeuralNetwork, draws: Any) -> jax.Array:
    """The function values that a verdict looks at."""
    return jax.lax.map(model.predictions, jnp.asarray(draws), batch_size=1000)


def halved(model: BayesianNeuralNetwork, draws: np.ndarray) -> tuple[np.ndarray, list[float], float]:
    """Weights whose functions have half the spread; the least, median and largest ratio of sds, and the largest shift.

    The shift is that of a mean, in standard deviations of the draws that were given.
    """
    grid = model.units.standardised(jnp.asarray(GRID[::2]))

    def function(w: jax.Array) -> jax.Array:
        return jnp.concatenate([model.predictions(w), model.outputs(model.point(w), grid)[0]])

    @jax.jit
    def moved(draws: jax.Array) -> tuple[jax.Array, jax.Array]:
        values = jax.lax.map(function, draws, batch_size=500)
        aims = 0.5 * (values + values.mean(0))

        def one(pair: tuple[jax.Array, jax.Array]) -> jax.Array:
            def step(w: jax.Array, _: None) -> tuple[jax.Array, None]:
                jacobian, rest = jax.jacobian(function)(w), pair[1] - function(w)
                ridge = 1e-4 * jnp.eye(len(rest))  # neighbouring inputs have almost the same row
                return w + jacobian.T @ jnp.linalg.solve(jacobian @ jacobian.T + ridge, rest), None

            return jax.lax.scan(step, pair[0], None, length=NEWTON_STEPS)[0]

        return jax.lax.map(one, (draws, aims), batch_size=50), values

    narrow, before = (np.asarray(part) for part in moved(jnp.asarray(draws)))
    before, after = before[:, : len(model.prediction_names)], np.asarray(predicted(model, narrow))
    ratios = np.quantile(after.std(0) / before.std(0), [0.0, 0.5, 1.0])
    shift = np.max(np.abs(after.mean(0) - before.mean(0)) / before.std(0))
    return narrow, ratios.tolist(), float(shift)


def band(model: BayesianNeuralNetwork, draws: np.ndarray) -> dict[str, list[float]]:
    """Mean and standard deviation of the functions on the grid."""
    some = jnp.asarray(draws[np.linspace(0, len(draws) - 1, min(len(draws), BANDS)).astype(int)])
    values = np.asarray(jax.jit(jax.vmap(lambda w: model.predict(model.point(w), GRID)))(some))
    return {"mean": values.mean(0).tolist(), "sd": values.std(0).tolist()}


def beside(row: dict[str, Any], reference: dict[str, Any]) -> dict[str, float]:
    """A band against another one."""
    in_gap, in_data = np.abs(GRID[:, 0]) < GAP, (np.abs(GRID[:, 0]) >= GAP) & (np.abs(GRID[:, 0]) <= 2.0)
    (mean, sd), (other_mean, other_sd) = (
        (np.array(one["band"]["mean"]), np.array(one["band"]["sd"])) for one in (row, reference)
    )
    return _rounded(
        {
            "rmse_of_mean": float(np.sqrt(np.mean((mean - other_mean) ** 2))),
            "rmse_of_mean_in_data_over_noise_sd": float(np.sqrt(np.mean((mean - other_mean)[in_data] ** 2)) / NOISE_SD),
            "sd_ratio_in_data": float(np.median(sd[in_data] / other_sd[in_data])),
            "rmse_of_mean_in_gap": float(np.sqrt(np.mean((mean - other_mean)[in_gap] ** 2))),
            "sd_ratio_in_gap": float(np.median(sd[in_gap] / other_sd[in_gap])),
        }
    )


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What the verdicts say, and every fit beside HMC with the same key."""
    of = {name: [row for row in rows if row["method"] == name and "failed" not in row] for name in METHODS}
    found: dict[str, Any] = {}
    if of["hmc"]:
        found["hmc"] = {
            "largest_rhat_f": max(row["rhat_f"] for row in of["hmc"]),
            "is_mixed": all(row["rhat_f"] <= MOST_RHAT for row in of["hmc"]),
            "levels": [row["check"]["level"] for row in of["hmc"]],
            "levels_of_run": [row["check_of_run"]["level"] for row in of["hmc"]],
            "levels_of_halved": [row["halved"]["check"]["level"] for row in of["hmc"]],
            "seconds": float(np.median([row["seconds"] for row in of["hmc"]])),
            "seconds_of_check": float(np.median([row["check_of_run"]["seconds"] for row in of["hmc"]])),
        }
    if len(of["hmc"]) > 1:
        found["floor"] = beside(of["hmc"][0], of["hmc"][1])
    by_key = {row["key"]: row for row in of["hmc"]}
    fits = [row for row in of["fit"] if row["key"] in by_key]
    inferred = [row for row in of["infer"] if row["key"] in by_key]
    if inferred:
        found["infer"] = {
            "draws_of": [row["draws_of"] for row in inferred],
            "levels": [row["check"]["level"] for row in inferred],
            "seconds": float(np.median([row["seconds"] for row in inferred])),
            "beside_hmc": [beside(row, by_key[row["key"]]) for row in inferred],
        }
    if fits:
        found["fit"] = {
            "levels": [row["check"]["level"] for row in fits],
            "seconds": float(np.median([row["seconds"] for row in fits])),
            "share_between_repeats": [row["share_between_repeats"] for row in fits],
            "last_layer_share": [row["last_layer_share"] for row in fits],
            "beside_hmc": [beside(row, by_key[row["key"]]) for row in fits],
        }
    return found


def draw_figure(rows: list[dict[str, Any]], path: Path) -> None:
    """The bands of all methods with the first key: means, and two standard deviations on either side."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    chosen = [row for row in rows if "band" in row and row["key"] == rows[0]["key"]]
    figure, axes = plt.subplots(1, len(chosen), figsize=(4.6 * len(chosen), 3.6), sharey=True, layout="constrained")
    (x, y), labels = data(), {"hmc": "HMC", "fit": "sivi.fit", "infer": "sivi.infer"}
    for ax, row in zip(np.atleast_1d(axes), chosen, strict=True):
        mean, sd = np.array(row["band"]["mean"]), np.array(row["band"]["sd"])
        ax.fill_between(GRID[:, 0], mean - 2.0 * sd, mean + 2.0 * sd, alpha=0.3, linewidth=0)
        ax.plot(GRID[:, 0], mean)
        ax.plot(x[:, 0], y, "k.", markersize=3)
        ax.set_title(f"{labels[row['method']]}: {row['check']['level']}")
        ax.set_xlabel("x")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return round(float(value), 4) if isinstance(value, (float, np.floating)) else value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--figure", action="store_true", help="draw the bands into docs/images/bnn_gap.png")
    parser.add_argument("--quick", action="store_true", help="few updates and transitions: does everything run?")
    parser.add_argument("--resume", action="store_true", help="keep the runs in the file, and add what is missing")
    parser.add_argument("--note", help="what else to say of the machine")
    parser.add_argument("--output", type=Path, default=RESULTS / "bnn_gap.json")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print("\n" + json.dumps(run_job(json.loads(args.child))))
        return
    content = {"script": "benchmarks/bnn_gap.py", "keys": args.keys, "quick": args.quick, "note": args.note}
    content |= {"data_seed": DATA_SEED, "num_data": NUM_DATA, "grid": GRID[:, 0].round(4).tolist(), **environment()}
    rows: list[dict[str, Any]] = []
    if args.resume and args.output.exists():
        rows = [row for row in json.loads(args.output.read_text())["rows"] if "failed" not in row]
    done = {(row["method"], row["key"], row["quick"]) for row in rows}
    for job in [{"method": method, "key": key, "quick": args.quick} for key in args.keys for method in args.methods]:
        if tuple(job.values()) in done:
            continue
        try:
            rows.append(run_json(__file__, ["--child", json.dumps(job)], cold()))
        except RuntimeError as error:
            rows.append(job | {"failed": str(error)})
        print(json.dumps({name: value for name, value in rows[-1].items() if name != "band"}), flush=True)
        rows.sort(key=lambda row: (row["key"], METHODS.index(row["method"])))
        write(args.output, content | {"summary": summary(rows), "rows": rows})
    print(json.dumps(summary(rows), indent=1))
    if args.figure:
        draw_figure(rows, ROOT / "docs" / "images" / "bnn_gap.png")


if __name__ == "__main__":
    main()
