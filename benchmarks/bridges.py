"""Models by hand and of other libraries, fitted by the default call, beside long runs of NumPyro's NUTS.

    python benchmarks/bridges.py [--libraries hand numpyro pymc] [--models hierarchical counts mixture] [--quick]

The models are those of tests/bridges. Errors are those of the constrained unknowns, one by one: the difference of the
means in standard deviations of NUTS, and the ratio of the standard deviations. The bars are 0.1, and 0.9 to 1.1.
`check` is what `posterior.check()` says of the fit. Rows of a library replace those of the same library and model in
the file.
"""

import argparse
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import jax
import jax.numpy as jnp
import numpy as np

import sivi
from _common import RESULTS, environment, write
from bridges.models import BY_HAND, LIKE
from sivi._version import package_version

LIBRARIES = ("hand", "numpyro", "pymc")
CHAINS, SEED, DRAWS = 4, 0, 20_000
BARS = {"mean_error": 0.1, "sd_ratio": [0.9, 1.1]}


def target_of(library, name):
    """The target, and a function from draws of its unknowns to draws of those by hand."""
    log_prob, data = BY_HAND[name]
    if library == "hand":
        return sivi.targets.LogDensity(lambda p: log_prob(p, data), like=LIKE[name]), lambda draws: draws
    if library == "numpyro":
        from bridges.numpyro_models import MODELS

        model, arguments = MODELS[name]
        return sivi.from_numpyro(model, **arguments), lambda draws: draws
    from bridges.pymc_models import MODELS, model_of

    by_hand = MODELS[name][1]
    return sivi.from_pymc(model_of(name)), jax.vmap(lambda point: by_hand(point)[0])


def nuts(name, num):
    """Draws by variable, and the worst R-hat."""
    from numpyro.diagnostics import split_gelman_rubin
    from numpyro.infer import MCMC, NUTS

    from bridges.numpyro_models import MODELS

    model, data = MODELS[name]
    mcmc = MCMC(
        NUTS(model, target_accept_prob=0.9),
        num_warmup=1000,
        num_samples=num,
        num_chains=CHAINS,
        chain_method="sequential",
        progress_bar=False,
    )
    mcmc.run(jax.random.key(SEED), **jax.tree.map(jnp.asarray, data))
    draws = {k: np.asarray(v) for k, v in mcmc.get_samples(group_by_chain=True).items() if k in LIKE[name]}
    rhat = max(float(np.nanmax(split_gelman_rubin(values))) for values in draws.values())
    return {k: v.reshape(-1, *v.shape[2:]) for k, v in draws.items()}, rhat


def compared(found, reference):
    """The worst errors, and where; entries that do not vary, such as zeros of a Cholesky factor, are left out."""
    means, ratios = {}, {}
    for name, values in reference.items():
        sd, own = values.std(0), np.asarray(found[name])
        for index in map(tuple, np.argwhere(sd > 1e-6)):
            at = f"{name}[{','.join(map(str, index))}]" if index else name
            means[at] = abs(float(own.mean(0)[index] - values.mean(0)[index])) / float(sd[index])
            ratios[at] = float(own.std(0)[index] / sd[index])
    at = max(means, key=means.get), min(ratios, key=ratios.get), max(ratios, key=ratios.get)
    errors = {"mean_error": means[at[0]], "sd_ratio_min": ratios[at[1]], "sd_ratio_max": ratios[at[2]]}
    where = {f"{error}_at": place for error, place in zip(errors, at, strict=True)}
    met = errors["mean_error"] <= 0.1 and errors["sd_ratio_min"] >= 0.9 and errors["sd_ratio_max"] <= 1.1
    return errors | where | {"met": met}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--libraries", nargs="+", choices=LIBRARIES, default=list(LIBRARIES))
    parser.add_argument("--models", nargs="+", choices=sorted(BY_HAND), default=list(BY_HAND))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--output", type=Path, default=RESULTS / "bridges.json")
    args = parser.parse_args()
    rows = json.loads(args.output.read_text())["rows"] if args.output.exists() else []
    for name in args.models:
        reference, rhat = nuts(name, 200 if args.quick else 5000)
        for library in args.libraries:
            target, by_hand = target_of(library, name)
            start = time.perf_counter()
            posterior = sivi.fit(target, key=SEED, progress=False, num_steps=50 if args.quick else None)
            seconds = time.perf_counter() - start
            errors = compared(by_hand(posterior.sample(DRAWS, key=SEED + 1)), reference)
            verdict = posterior.check(key=SEED)
            row = {"library": library, "model": name, "dim": target.dim, "seconds": seconds, "nuts_rhat": rhat} | errors
            row |= {"check": verdict.level, "findings": [finding.sentence for finding in verdict.findings]}
            rows = [old for old in rows if (old["library"], old["model"]) != (library, name)] + [row]
            print(rows[-1], flush=True)
            versions = {package: package_version(package) for package in ("numpyro", "pymc")}
            about = {"script": "benchmarks/bridges.py", "seed": SEED, "quick": args.quick, "bars": BARS}
            write(args.output, about | {"environment": environment(), "versions": versions, "rows": rows})


if __name__ == "__main__":
    main()
