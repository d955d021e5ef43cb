"""Bayesian logistic regression."""

import math
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .._arguments import check_numbers, check_positive, default_float, describe
from .._backend import matmul_highest
from .._smooth import log_sigmoid
from .._types import ArrayLike, Scalar
from .bayesian_model import BayesianModel
from .curvature import KnowsCurvature
from .labels import check_labels


@final
class LogisticRegression(BayesianModel, KnowsCurvature):
    """y_n ~ Bernoulli(1 / (1 + exp(−βᵀ x_n))), with β ~ N(0, s² I).

        log p(y_n | x_n, β) = y_n βᵀx_n − log(1 + exp(βᵀx_n)).

    The unknowns are the coefficients β, one per column of the inputs; nothing is added to them. The log posterior is
    concave, and the score that of autodiff: Xᵀ(y − p), a product of matrices under `vmap`.

    Args:
        inputs: (num_data, features); add a column of ones for an intercept.
        labels: (num_data,), each 0 or 1.
        prior_scale: s, the prior standard deviation of a coefficient.

    Example:
        >>> model = LogisticRegression([[1.0, -1.0], [1.0, 2.0]], [0, 1], prior_scale=1.0)
        >>> model.dim, model.predict(jnp.zeros(2), jnp.ones((1, 2))).tolist()
        (2, [0.5])
    """

    data: tuple[Float[Array, "num_data features"], Float[Array, " num_data"]]
    prior_scale: float = eqx.field(static=True)

    def __init__(self, inputs: ArrayLike, labels: ArrayLike, *, prior_scale: float = 10.0):
        x, y = (check_numbers(name, array).astype(float) for name, array in (("inputs", inputs), ("labels", labels)))
        if x.ndim != 2 or x.shape[1] < 1 or y.shape != x.shape[:1]:
            raise ValueError(
                "inputs must have shape (num_data, features) and labels (num_data,); "
                f"got {describe(x)} and {describe(y)}."
            )
        if not np.isfinite(x).all():
            raise ValueError(f"inputs must be finite; {int((~np.isfinite(x)).any(1).sum())} rows are not.")
        other = y[(y != 0) & (y != 1)]
        if other.size:
            raise ValueError(f"labels must be 0 or 1; got {other[0]:g}, and {other.size} such values in all.")
        self.data = (jnp.asarray(x, default_float()), jnp.asarray(y, default_float()))
        self.prior_scale = check_positive("prior_scale", prior_scale)

    def __init_subclass__(cls, **settings: object) -> None:
        raise TypeError(
            "LogisticRegression is final, since its closed forms hold for its own prior and likelihood alone: "
            f"derive {cls.__name__} from sivi.targets.BayesianModel."
        )

    def check_data(self, data: tuple[ArrayLike, ArrayLike]) -> None:
        check_labels("labels in data", np.asarray(data[1]), 2)

    @property
    def dim(self) -> int:
        return int(self.data[0].shape[-1])

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        return ((self.dim,),)

    def curvature_blocks(
        self, points: Float[Array, "draws dim"], array: int, axis: int, rotation: Float[Array, "1 1"] | None
    ) -> Float[Array, "1 dim dim"]:
        """Σ_n p_n (1 − p_n) x_n x_nᵀ + I / s², the whole curvature as one block."""
        inputs = self.data[0]

        def add(total: Array, x: Array) -> tuple[Array, None]:
            p = jax.nn.sigmoid(inputs @ x)
            return total + p * (1.0 - p), None

        weights, _ = jax.lax.scan(add, jnp.zeros_like(inputs[:, 0]), points)
        curvature = matmul_highest(inputs.T * (weights / len(points)), inputs)
        return (curvature + self.prior_scale**-2 * jnp.eye(self.dim, dtype=inputs.dtype))[None]

    def curvature_trace(self, points: Float[Array, "draws dim"], array: int, axis: int) -> Float[Array, "dim dim"]:
        """The only block."""
        return self.curvature_blocks(points, array, axis, None)[0]

    def log_prior(self, x: Float[Array, " dim"]) -> Scalar:
        constant = self.dim * (math.log(self.prior_scale) + 0.5 * math.log(2 * math.pi))
        return -0.5 * jnp.sum((x / self.prior_scale) ** 2) - constant

    def log_likelihood(self, x: Float[Array, " dim"], datum: tuple[Float[Array, " features"], Scalar]) -> Scalar:
        features, label = datum
        # log p = −log(1 + exp(∓βᵀx)), which neither overflows nor loses the tail of the likelier label.
        return log_sigmoid((2.0 * label - 1.0) * (features @ x))

    def predict(self, x: Float[Array, "*draws dim"], inputs: Float[Array, "n dim"]) -> Float[Array, "*draws n"]:
        """The probabilities of label 1 at new inputs, of a point or of draws."""
        return jax.nn.sigmoid(x @ inputs.T)

    def sample_datum(
        self, key: PRNGKeyArray, x: Float[Array, " dim"], datum: tuple[Float[Array, " dim"], Scalar]
    ) -> Scalar:
        """A label, 0 or 1, at the inputs of a datum."""
        return jax.random.bernoulli(key, jax.nn.sigmoid(datum[0] @ x)).astype(datum[1].dtype)
