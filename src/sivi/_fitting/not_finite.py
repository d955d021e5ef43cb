"""Where a target is not finite: how often, an example, and what to do about it, for the messages of errors."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._arguments import default_float
from .._errors import FitDiverged
from .._layout import Layout
from .._repeats import member_of
from ..coordinates import CoordinateMap
from ..families import Family
from ..posterior import Posterior
from ..targets import LogDensity, Target
from ..targets.evaluate import log_probs_at, scores_at
from . import member

#: Draws of the last good family at which a target is looked at after a fit has diverged.
NUM_DRAWS = 1024

#: Draws this far out, in the coordinates of the fit, are those of a family that has run off.
_FAR = 1e4

#: Points at which float64 is tried.
_MOST_POINTS = 32


class NotFinite(NamedTuple):
    """One quantity of a target that is not finite at some points.

    Attributes:
        name: "log density" or "score".
        num_points: All points.
        points: Those where it is not finite.
        value: At the first of these.
    """

    name: str
    num_points: int
    points: Float[np.ndarray, "bad dim"]
    value: np.ndarray

    @property
    def count(self) -> int:
        return len(self.points)

    def example(self, layout: Layout) -> str:
        """The value and the point, in the user's names: "nan at mu = 0.5, tau = [1. 2.]"."""
        named = layout.named(jnp.asarray(self.points[0], default_float()))
        values = {name: np.array2string(np.asarray(v), precision=4, threshold=12) for name, v in named.items()}
        place = ", ".join(f"{name} = {text}" for name, text in values.items())
        return f"{np.array2string(np.asarray(self.value), precision=4, threshold=12)} at {place}"


#: The names of what `values_at` returns.
VALUES = ("log density", "score")


def values_at(target: Target, points: Float[Array, "points dim"]) -> dict[str, Array]:
    """The log density, where known, and the score."""
    values = {"log density": log_probs_at(target, points)} if target.knows_log_prob else {}
    return values | {"score": scores_at(target, points)}


def not_finite(points: np.ndarray, values: dict[str, np.ndarray], least: float = 0.0) -> NotFinite | None:
    """The first quantity that is not finite at more than `least` of the points; None if there is none."""
    for name, found in values.items():
        bad = ~np.isfinite(found).reshape(len(points), -1).all(1)
        if bad.sum() > least * len(points):
            return NotFinite(name, len(points), points[bad], found[bad][0])
    return None


def advice(found: NotFinite, layout: Layout, function: object) -> str:
    """What to do about it, in a sentence.

    Args:
        found: Where the target is not finite.
        layout: Of its unknowns.
        function: The target as the user gave it.
    """
    if default_float().itemsize < 8 and _is_finite_in_float64(found, layout, function):
        return (
            "In float64 it is finite there, so float32 is the likely cause: call "
            'jax.config.update("jax_enable_x64", True) before anything else.'
        )
    return (
        "Write unknowns that have bounds as constraints, such as sivi.positive() or sivi.interval(low, high), or use "
        "a density that is finite everywhere."
    )


def _is_finite_in_float64(found: NotFinite, layout: Layout, function: object) -> bool:
    """Whether the target is finite in float64 at most of the points; False if that cannot be found out."""
    try:
        with jax.enable_x64(True):
            wide = Layout(tuple(v._replace(dtype="float64") for v in layout.variables), layout.treedef)
            if isinstance(function, LogDensity):
                function = function.function
            target = function if isinstance(function, Target) else LogDensity(function, like=wide)  # pyright: ignore[reportArgumentType]
            points = jnp.asarray(found.points[:_MOST_POINTS], jnp.float64)
            values = np.asarray(eqx.filter_jit(values_at)(target, points)[found.name])
        return bool(np.isfinite(values).reshape(len(points), -1).all(1).mean() > 0.5)
    except Exception:  # of the user's function, which may not work in float64
        return False


def explained(error: FitDiverged, function: object, cause: str = "") -> FitDiverged:
    """The error with its cause: where the target is not finite at draws of the last good state, or else the steps.

    Args:
        error: Of the loop, with the posterior.
        function: The target as the user gave it.
        cause: What is wrong with its density, if that is known already.
    """
    posterior = error.posterior
    try:
        cause = cause or ("" if posterior is None else _cause(posterior, function))
    except Exception:  # a target that cannot be evaluated now, for lack of memory say
        cause = ""
    cause = cause or "A smaller learning rate or a rescaled target may help."
    return FitDiverged(f"{error} {cause} The last good state is in this error's posterior attribute.", posterior)


def _cause(posterior: Posterior, function: object) -> str:
    target = posterior.target
    assert target is not None
    worst = int(np.argmax(np.asarray(posterior.run.state.streak)))
    family, affine = member_of((posterior.families, posterior.affines), worst)
    points = _draws_in_x(family, affine)
    farthest = float(jnp.median(jnp.max(jnp.abs(jax.vmap(affine.inverse)(points)), axis=1)))
    if not np.isfinite(farthest):
        return (
            "The last good state has draws beyond all numbers: a smaller learning rate or a rescaled target may help, "
            "unless the density cannot be normalised, so that nothing holds its draws."
        )
    if farthest >= _FAR:
        return (
            f"The last good state has draws {farthest:.2g} standard deviations of its coordinates away: a smaller "
            "learning rate or a rescaled target may help."
        )
    values = {name: np.asarray(value) for name, value in eqx.filter_jit(values_at)(target, points).items()}
    found = not_finite(np.asarray(points), values)
    if found is None:
        return (
            f"The target is finite at all of {NUM_DRAWS} draws of the last good state: a smaller learning rate or a "
            "rescaled target may help."
        )
    return (
        f"The {found.name} is not finite at {found.count} of {NUM_DRAWS} draws of the last good state "
        f"({100 * found.count / NUM_DRAWS:.2g} %), for example {found.example(posterior.layout)}. "
        + advice(found, posterior.layout, function)
    )


@eqx.filter_jit
def _draws_in_x(family: Family, affine: CoordinateMap) -> Float[Array, "points dim"]:
    return member.points_of(affine, member.draws_of(NUM_DRAWS, family, jax.random.key(0)))
