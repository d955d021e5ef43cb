"""Bayesian multinomial logistic regression.

The likelihood is one matrix product for all data, with the weights of one class together: otherwise the logits of
several classes are transposed back and forth. The score has a closed form. The second derivative that SIVI-SM needs
is then a softmax and two products, where autodiff makes many kernels on a GPU.
"""

import math
import warnings
from collections.abc import Callable
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .._arguments import check_count, check_numbers, check_positive, default_float, describe, has_numbers
from .._backend import columns_to_pad, matmul_highest
from .._types import ArrayLike, Scalar
from .bayesian_model import BayesianModel
from .curvature import KnowsCurvature
from .labels import check_labels


@final
class MultinomialRegression(BayesianModel, KnowsCurvature):
    """P(y_n = k) = exp(β_kᵀ x_n) / Σ_j exp(β_jᵀ x_n), with β_k ~ N(0, s² I) for every class k.

        log p(y_n | x_n, β) = β_{y_n}ᵀx_n − log Σ_j exp(β_jᵀx_n)
        ∇_{β_k} log p       = Σ_n (1[y_n = k] − P(y_n = k)) x_n − β_k / s².

    Every class has its own weights and none is a reference, so the likelihood does not change when one vector is added
    to all of them; only the prior does. The log posterior is concave.

    The unknowns are the vector (β_0, β_1, …), the weights of the classes one after the other; `coefficients` makes it a
    matrix. In this order, logits and score of many points are one product of matrices each, and nothing is transposed.

    Args:
        inputs: (num_data, features); add a column of ones for an intercept.
        labels: (num_data,), whole numbers from 0 to num_classes − 1.
        num_classes: By default the largest label plus one.
        prior_scale: s, the prior standard deviation of a coefficient.

    Example:
        >>> model = MultinomialRegression([[1.0, -1.0], [1.0, 2.0], [1.0, 0.0]], [0, 1, 3], num_classes=4)
        >>> model.num_classes, model.dim, model.predict(jnp.zeros(8), jnp.ones((1, 2))).tolist()
        (4, 8, [[0.25, 0.25, 0.25, 0.25]])
        >>> model.coefficients(jnp.arange(8.0)).tolist()
        [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 7.0]]
    """

    data: tuple[Float[Array, "num_data features"], Int[Array, " num_data"]]
    num_classes: int = eqx.field(static=True)
    prior_scale: float = eqx.field(static=True)

    def __init__(
        self, inputs: ArrayLike, labels: ArrayLike, *, num_classes: int | None = None, prior_scale: float = 1.0
    ):
        x, y = _numbers("inputs", inputs), np.asarray(_numbers("labels", labels))
        if x.ndim != 2 or x.shape[1] < 1 or y.shape != x.shape[:1]:
            raise ValueError(
                "inputs must have shape (num_data, features) and labels (num_data,); "
                f"got {describe(x)} and {describe(y)}."
            )
        if len(x) == 0:
            raise ValueError(f"inputs must have at least one row; got {describe(x)}.")
        self.num_classes = _count_classes(y, num_classes)
        self.prior_scale = check_positive("prior_scale", prior_scale)
        # The caller's NumPy array may change later, so it is copied; a JAX array cannot.
        stored = x if isinstance(x, jax.Array) else jnp.array(x, default_float())
        self.data = (stored.astype(default_float()), jnp.array(y, jnp.int32))
        finite = jnp.isfinite(self.data[0]).all(1)
        if not finite.all():
            raise ValueError(f"inputs must be finite; {int((~finite).sum())} rows are not.")

    def __init_subclass__(cls, **settings: object) -> None:
        raise TypeError(
            "MultinomialRegression is final, since its closed forms hold for its own prior and likelihood alone: "
            f"derive {cls.__name__} from sivi.targets.BayesianModel."
        )

    def check_data(self, data: tuple[ArrayLike, ArrayLike]) -> None:
        check_labels("labels in data", np.asarray(data[1]), self.num_classes)

    @property
    def dim(self) -> int:
        return self.num_classes * int(self.data[0].shape[-1])

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        return ((self.num_classes, int(self.data[0].shape[-1])),)

    def curvature_blocks(
        self, points: Float[Array, "draws dim"], array: int, axis: int, rotation: Float[Array, "rows rows"] | None
    ) -> Float[Array, "rows cols cols"]:
        """Blocks of the curvature Σ_n (diag(p_n) − p_n p_nᵀ) ⊗ x_n x_nᵀ + I / s².

        For a mixture t of the classes Σ_n (Σ_k t_k² p_nk − (tᵀp_n)²) x_n x_nᵀ, and for a mixture t of the features
        Σ_n (tᵀx_n)² (diag(p_n) − p_n p_nᵀ), each with the prior's I / s².
        """
        inputs = self.data[0]
        if axis == 1:
            mix = jnp.eye(self.num_classes, dtype=inputs.dtype) if rotation is None else rotation
            weights = self._mean(points, lambda p: matmul_highest(mix.T**2, p) - matmul_highest(mix.T, p) ** 2)
            blocks = jax.lax.map(lambda weight: matmul_highest(inputs.T * weight, inputs), weights)
        else:
            squares = (inputs if rotation is None else matmul_highest(inputs, rotation)) ** 2
            blocks = self._mean(points, lambda p: jax.lax.map(lambda square: _spread(p, square), squares.T))
        return blocks + self.prior_scale**-2 * jnp.eye(blocks.shape[-1], dtype=inputs.dtype)

    def curvature_trace(self, points: Float[Array, "draws dim"], array: int, axis: int) -> Float[Array, "cols cols"]:
        """The blocks added up: the sum over the rows of what multiplies each block, then one product."""
        inputs = self.data[0]
        if axis == 1:
            weights = self._mean(points, lambda p: 1.0 - jnp.sum(p**2, axis=0))
            trace, rows = matmul_highest(inputs.T * weights, inputs), self.num_classes
        else:
            squares = jnp.sum(inputs**2, axis=1)
            trace, rows = self._mean(points, lambda p: _spread(p, squares)), inputs.shape[1]
        return trace + rows * self.prior_scale**-2 * jnp.eye(len(trace), dtype=inputs.dtype)

    def _mean(self, points: Float[Array, "draws dim"], function: Callable[[Array], Array]) -> Array:
        """The mean over the points of a function of the (classes, rows) probabilities of the data."""
        inputs = self.data[0]

        def add(total: Array, x: Array) -> tuple[Array, None]:
            return total + function(jax.nn.softmax(self.coefficients(x) @ inputs.T, axis=0)) / len(points), None

        like = jax.eval_shape(function, jax.ShapeDtypeStruct((self.num_classes, len(inputs)), inputs.dtype))
        return jax.lax.scan(add, jnp.zeros(like.shape, like.dtype), points)[0]

    def coefficients(self, x: Float[Array, "*draws dim"]) -> Float[Array, "*draws num_classes features"]:
        """The weights β of a point or of draws as matrices, one row per class."""
        return x.reshape(*x.shape[:-1], self.num_classes, -1)

    def log_prior(self, x: Float[Array, " dim"]) -> Scalar:
        constant = self.dim * (math.log(self.prior_scale) + 0.5 * math.log(2 * math.pi))
        return -0.5 * jnp.sum((x / self.prior_scale) ** 2) - constant

    def log_likelihood(
        self, x: Float[Array, " dim"], datum: tuple[Float[Array, " features"], Int[Array, ""]]
    ) -> Scalar:
        features, label = datum
        return self.log_likelihoods(x, (features[None], label[None]))[0]

    def log_likelihoods(
        self, x: Float[Array, " dim"], data: tuple[Float[Array, "n features"], Int[Array, " n"]]
    ) -> Float[Array, " n"]:
        """All rows at once. A comparison in place of an index keeps scatters out of the derivative."""
        inputs, labels = data
        log_p = jax.nn.log_softmax(self._logits(x, _aligned(inputs)), axis=0)
        chosen = jnp.arange(self.num_classes)[:, None] == labels
        is_class = (labels >= 0) & (labels < self.num_classes)
        return jnp.where(is_class, jnp.sum(jnp.where(chosen, log_p, 0.0), axis=0), -jnp.inf)

    def score(self, x: Float[Array, " dim"], batch: Int[Array, " batch"] | None = None) -> Float[Array, " dim"]:
        """The score in closed form; its derivative is two products of matrices as well."""
        (inputs, labels), scale = self._rows(batch)
        aligned = _aligned(inputs)
        is_label = jnp.arange(self.num_classes)[:, None] == labels
        residuals = is_label - jax.nn.softmax(self._logits(x, aligned), axis=0)
        likelihood = (residuals @ aligned)[:, : inputs.shape[-1]].reshape(-1)
        return scale * likelihood + jax.grad(self.log_prior)(x)

    def _logits(self, x: Float[Array, " dim"], aligned: Float[Array, "n padded"]) -> Float[Array, "num_classes n"]:
        return _aligned(self.coefficients(x)) @ aligned.T

    def predict(
        self, x: Float[Array, "*draws dim"], inputs: Float[Array, "n features"]
    ) -> Float[Array, "*draws n num_classes"]:
        """The probabilities of the classes at new inputs, one row per input; of a point or of draws."""
        return jnp.swapaxes(jax.nn.softmax(self.coefficients(x) @ inputs.T, axis=-2), -1, -2)

    def sample_datum(
        self, key: PRNGKeyArray, x: Float[Array, " dim"], datum: tuple[Float[Array, " features"], Int[Array, ""]]
    ) -> Int[Array, ""]:
        """A label at the inputs of a datum."""
        return jax.random.categorical(key, self.coefficients(x) @ datum[0]).astype(datum[1].dtype)


def _spread(p: Float[Array, "classes n"], weights: Float[Array, " n"]) -> Float[Array, "classes classes"]:
    """Σ_n w_n (diag(p_n) − p_n p_nᵀ)."""
    return jnp.diag(matmul_highest(p, weights)) - matmul_highest(p * weights, p.T)


def _aligned(rows: Float[Array, "n features"]) -> Float[Array, "n padded"]:
    """Padded with columns of zeros on devices where products over other lengths are slow."""
    missing = columns_to_pad(rows.shape[-1])
    return jnp.pad(rows, ((0, 0), (0, missing))) if missing else rows


def _numbers(name: str, values: ArrayLike) -> Array | np.ndarray:
    """`values` as an array of its own type; an array is not copied."""
    if isinstance(values, jax.Array) and has_numbers(values):
        return values
    try:
        array = check_numbers(name, values)
    except TypeError as error:
        raise ValueError(str(error)) from None
    return array


def _count_classes(labels: np.ndarray, num_classes: int | None) -> int:
    """The number of classes, or an error if a label is none of them."""
    if num_classes is not None:
        num_classes = check_count("num_classes", num_classes, 2)
    check_labels("labels", labels, num_classes)
    largest = int(labels.max())
    if num_classes is None and largest == 0:
        raise ValueError("num_classes must be given where labels has one class only; all labels are 0.")
    if num_classes is None:
        missing = largest + 1 - len(np.unique(labels))
        if missing:
            warnings.warn(
                f"labels: {missing} of the classes from 0 to {largest} have no row; give num_classes if that is meant.",
                stacklevel=3,
            )
    return num_classes or largest + 1
