"""Posteriors that were never fitted: of families with known moments, to test what a posterior does with them."""

import jax
import jax.numpy as jnp

from sivi._layout import Layout
from sivi._repeats import stack_repeats
from sivi._run import FitSettings, Run, RunState
from sivi.posterior import Posterior
from sivi.stopping import init_stop


def posterior_of(family, maps, layout=None) -> Posterior:
    """The equal mixture of one family under each of these affine maps."""
    repeats, dim = len(maps), family.dim
    affines = stack_repeats(maps[0], 1) if repeats == 1 else jax.tree.map(lambda *leaves: jnp.stack(leaves), *maps)
    settings = FitSettings(key=jax.random.key(0), objective=None, num_steps=1, repeats=repeats)
    zeros = jnp.zeros(repeats, jnp.int32)
    state = RunState(stack_repeats(family, repeats), None, zeros, zeros, init_stop(None, 1, repeats))
    return Posterior(Run(settings, 0, state), affines, layout or Layout.vector(dim), {}, None)
