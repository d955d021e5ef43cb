"""The warm-ups of all repeats, as one or two runs of one program."""

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from .._arguments import default_float
from .._batches import BatchWindows
from .._compiler import options_of_a_start
from .._host_random import fold_in, unstack
from .._programs import compiled, when_running
from .._progress import ProgressBar
from .._repeats import across_repeats, member_of, stack_trees
from .._types import RepeatKeys
from ..coordinates import CoordinateMap, DenseMap
from ..defaults import Recipe
from ..targets import Target
from ..warmup.numbers import WarmupNumbers
from ..warmup.on_host import Steps, find_maps, steps_of_attempt
from ..warmup.status import drift_noise
from .compile_ahead import zeros_like_output

#: Maps, the codes of their status, and whether starts have found several modes, by repeat.
Found = tuple[CoordinateMap, Int[Array | np.ndarray, " repeats"], Bool[Array | np.ndarray, " repeats"]]


@dataclass(frozen=True)
class WarmUp:
    """What a warm-up of all repeats is made of.

    Attributes:
        recipe: Its numbers of starts and steps, and the rank of the map.
        keys: One for every repeat.
        target: The target.
        batch_size: Rows of data per step; None for all.
        numbers: The random numbers of all repeats, from the host; None for a map of low rank, whose program makes them.
        windows: The rows of data of each step, likewise; None for all rows.
    """

    recipe: Recipe
    keys: RepeatKeys
    target: Target
    batch_size: int | None
    numbers: WarmupNumbers | None
    windows: BatchWindows | None

    @staticmethod
    def of(recipe: Recipe, keys: RepeatKeys, target: Target, batch_size: int | None) -> "WarmUp":
        """The warm-up of these repeats; on the host what is random in it, if that is not too much."""
        if recipe.warmup_rank is not None or recipe.optimum is not None:
            return WarmUp(recipe, keys, target, batch_size, None, None)
        sizes = recipe.warmup_starts, recipe.warmup_steps, recipe.dim
        numbers = stack_trees([WarmupNumbers.on_host(key, *sizes) for key in unstack(keys)])
        windows = None
        if batch_size is not None and target.num_data is not None:
            rows = target.num_data, batch_size, recipe.warmup_steps
            windows = stack_trees([BatchWindows.for_run(key, *rows) for key in unstack(fold_in(keys, 1))])
        return WarmUp(recipe, keys, target, batch_size, numbers, windows)

    def example(self) -> CoordinateMap:
        """Maps of the kind that are found."""
        if self.numbers is None:
            return zeros_like_output(_low_rank, self.recipe, self.keys, self.target, self.batch_size)[0]
        identity = np.eye(self.recipe.dim, dtype=default_float())
        one = DenseMap(*map(jnp.asarray, (identity[0], identity, identity, identity[0, 0])))
        return stack_trees([one] * len(self.keys))

    def run(self, bar: ProgressBar) -> Found:
        """Find the maps; show when the program is compiled and runs."""
        with when_running(lambda: bar.phase("finding the scale")):
            return self._run()

    def _run(self) -> Found:
        numbers, windows = self.numbers, self.windows
        if numbers is None:
            arguments = self.recipe, self.keys, self.target, self.batch_size
            return jax.block_until_ready(_compiled_low_rank(*arguments))

        def attempt(index: int) -> Steps:
            return _steps(self.target, numbers, windows, len(self.keys), jnp.asarray(np.int32(index)))

        noise = drift_noise(None if windows is None else member_of(windows, 0), self.recipe.warmup_steps // 4)
        return find_maps(attempt, numbers, self.target.knows_log_prob, noise)


def _low_rank(recipe: Recipe, keys: RepeatKeys, target: Target, batch_size: int | None) -> Found:
    one = functools.partial(recipe.warm_up_with_status, target=target, batch_size=batch_size)
    return across_repeats(one, len(keys), keys)


_compiled_low_rank = compiled(_low_rank, options_of_a_start)


@functools.partial(compiled, options=options_of_a_start)
def _steps(
    target: Target, numbers: WarmupNumbers, windows: BatchWindows | None, repeats: int, index: Int[Array, ""]
) -> Steps:
    def one(numbers: WarmupNumbers, windows: BatchWindows | None) -> Steps:
        return steps_of_attempt(target, numbers, windows, index)

    return across_repeats(one, repeats, numbers, windows)
