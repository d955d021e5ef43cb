"""The models in NumPyro are those by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro import handlers
from numpyro.infer import init_to_uniform
from numpyro.infer.util import log_density

from bridges.models import BY_HAND
from bridges.numpyro_models import MODELS


@pytest.mark.parametrize("name", BY_HAND)
def test_log_densities_agree(name, x64):
    by_hand, data = BY_HAND[name]
    model, arguments = MODELS[name]
    arguments = jax.tree.map(jnp.asarray, arguments)
    started = handlers.substitute(handlers.seed(model, jax.random.key(3)), substitute_fn=init_to_uniform)
    trace = handlers.trace(started).get_trace(**arguments)
    seen = {site["name"]: site for site in trace.values() if site["type"] == "sample" and not site["is_observed"]}
    point = {name: site["value"] for name, site in seen.items()}
    theirs, _ = log_density(model, (), arguments, point)
    np.testing.assert_allclose(theirs, by_hand(jax.tree.map(jnp.asarray, point), data), rtol=1e-10)
