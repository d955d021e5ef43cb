"""NUTS by NumPyro, all chains as one program; NumPyro is needed for this alone."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from _clock import Clock
from sivi.samplers import effective_sample_size, split_rhat
from sivi.targets import as_target

NUM_CHAINS, NUM_WARMUP, NUM_DRAWS = 4, 1000, 1000
#: NumPyro's and Stan's own starts: uniform on (−2, 2) in free coordinates, tried again where they are not finite.
WIDTH, MAX_TRIES = 2.0, 100


def numpyro_nuts(
    problem: Any, what: dict[str, Any], key: int, num_warmup: int = NUM_WARMUP, num_samples: int = NUM_DRAWS
) -> tuple[dict[str, Any], np.ndarray]:
    """Seconds and diagnostics, and the draws (num, dim) of free numbers.

    The clock runs from the log density to draws on the host, compiling included, imports excluded.
    """
    from numpyro.infer import MCMC, NUTS

    clock = Clock()
    target = as_target(problem, **what)

    def potential(x: jax.Array) -> jax.Array:
        return -target.log_prob(x)

    chains = MCMC(
        NUTS(potential_fn=potential),
        num_warmup=num_warmup,
        num_samples=num_samples,
        num_chains=NUM_CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )
    chains.run(jax.random.key(key), init_params=_starts(potential, target.dim, key))
    draws = np.asarray(chains.get_samples(group_by_chain=True))
    facts: dict[str, Any] = clock.read()
    facts["divergences"] = int(np.sum(chains.get_extra_fields()["diverging"]))
    facts["rhat_max"] = float(np.max(split_rhat(draws)))
    facts["ess_min"] = float(np.min(effective_sample_size(draws)))
    return facts, draws.reshape(-1, target.dim)


def _starts(potential: Any, dim: int, key: int) -> jax.Array:
    rng = np.random.default_rng(key)
    evaluate = jax.jit(jax.vmap(jax.value_and_grad(potential)))
    points = rng.uniform(-WIDTH, WIDTH, (NUM_CHAINS, dim))
    for _ in range(MAX_TRIES):
        values, slopes = evaluate(jnp.asarray(points, jnp.float32))
        finite = np.isfinite(values) & np.isfinite(slopes).all(1)
        if finite.all():
            break
        points = np.where(finite[:, None], points, rng.uniform(-WIDTH, WIDTH, (NUM_CHAINS, dim)))
    return jnp.asarray(points, jnp.float32)
