"""What a task is: a problem for `sivi.fit`, the truth about it, what is measured and the largest value allowed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from sivi import Posterior
from sivi.metrics import moment_errors, sliced_wasserstein

#: A target or a function x → log p(x), and what `fit` needs to know of it: nothing, `dim` or `like`.
Problem = tuple[Any, dict[str, Any]]
#: A generator and a number of draws → a pytree of arrays with that leading axis, as `Posterior.sample` returns it.
Reference = Callable[[np.random.Generator, int], Any]

DISTANCE = {"order": 1, "num_slices": 100, "scale": "iqr"}
#: A distance may be this many times its mean between two exact sets.
FLOORS_ALLOWED = 2.0


@dataclass(frozen=True)
class Sizes:
    """How many draws of a fit each kind of number is computed from, and how many exact pairs make a floor."""

    kl: int = 100_000
    moments: int = 40_000
    distance: int = 10_000
    pairs: int = 50

    @staticmethod
    def quick() -> "Sizes":
        return Sizes(kl=5_000, moments=5_000, distance=2_000, pairs=5)


@dataclass(frozen=True)
class Task:
    """One line of the benchmark.

    Attributes:
        name: How it is asked for.
        about: What it is, in a line, for the results file.
        problem: Makes what is given to `fit`.
        measure: Numbers from a posterior, a key for its draws, a generator for exact ones, and the sizes.
        bars: Largest value allowed, by number; `seconds` and `peak_gb` are measured for every task.
        reference: Exact draws, where there are any. Then `distance` is measured too: sliced Wasserstein of order 1
            with every coordinate divided by the reference's interquartile range, in the variables as `fit` returns
            them; and `distance_unconstrained` where `unconstrain` is given.
        unconstrain: The draws with positive variables replaced by their logarithms.
        judged: Whether `distance` has the bar of twice its mean between exact sets, or is only reported.
        keys: The keys it is run with, of those asked for; all when left out.
    """

    name: str
    about: str
    problem: Callable[[], Problem]
    measure: Callable[[Posterior, int, np.random.Generator, Sizes], dict[str, float]] | None = None
    bars: Mapping[str, float] = field(default_factory=dict)
    reference: Reference | None = None
    unconstrain: Callable[[Any], Any] | None = None
    judged: bool = False
    keys: tuple[int, ...] | None = None

    def numbers(self, posterior: Posterior, key: int, sizes: Sizes) -> dict[str, float]:
        """Everything measured of one fit; its key decides the draws too."""
        rng = np.random.default_rng(1000 + key)
        numbers = {} if self.measure is None else self.measure(posterior, 1000 + key, rng, sizes)
        if self.reference is not None:
            exact = self.reference(rng, sizes.distance)
            drawn = posterior.sample(sizes.distance, key=2000 + key)
            numbers |= self.distances(exact, drawn)
            errors = moment_errors(flat(drawn), flat(exact))
            numbers["mean_error_sd"] = errors.largest_mean_error
            numbers["sd_error"] = errors.largest_sd_error
        return numbers

    def distances(self, exact: Any, drawn: Any) -> dict[str, float]:
        distances = {"distance": sliced_wasserstein(flat(exact), flat(drawn), **DISTANCE)}
        if self.unconstrain is not None:
            pair = (flat(self.unconstrain(draws)) for draws in (exact, drawn))
            distances["distance_unconstrained"] = sliced_wasserstein(*pair, **DISTANCE)
        return distances

    def floors(self, sizes: Sizes) -> dict[str, float]:
        """The mean of each distance between two exact sets."""
        if self.reference is None:
            return {}
        rng = np.random.default_rng(0)
        rows = []
        for _ in range(sizes.pairs):
            both = self.reference(rng, 2 * sizes.distance)
            first, second = (
                jax.tree.map(lambda leaf, part=part: leaf[part], both)
                for part in (slice(sizes.distance), slice(sizes.distance, None))
            )
            rows.append(self.distances(first, second))
        return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}

    def all_bars(self, floors: Mapping[str, float]) -> dict[str, float]:
        """The bars, with that of the distance where it has one."""
        return dict(self.bars) | ({"distance": FLOORS_ALLOWED * floors["distance"]} if self.judged else {})


def flat(draws: Any) -> np.ndarray:
    """Draws of any structure as (n, numbers of one draw)."""
    leaves = [np.asarray(leaf, float) for leaf in jax.tree.leaves(draws)]
    return np.concatenate([leaf.reshape(len(leaf), -1) for leaf in leaves], axis=1)


def logs_of(*names: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Takes the logarithms of these variables, which may not be zero even in float32."""

    def unconstrain(draws: dict[str, Any]) -> dict[str, Any]:
        return {n: np.log(np.maximum(np.asarray(v, float), 1e-37)) if n in names else v for n, v in draws.items()}

    return unconstrain


def exact_draws(target: Any) -> Reference:
    """The draws of one of the library's targets that can be sampled exactly."""

    def reference(rng: np.random.Generator, num: int) -> Any:
        keys = jax.random.split(jax.random.key(int(rng.integers(2**31))), num)
        return jax.vmap(lambda key: target.layout.unravel(target.sample(key)))(keys)

    return reference
