"""Coordinates in which the last layer of a network is known: `LastLayerMap`."""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from .._arguments import default_float
from .._layout import Layout
from .._types import Scalar
from ..constraints import positive
from ..coordinates import CoordinateMap, IdentityMap
from .likelihoods import NormalNoise, OutputLikelihood
from .networks import LayeredNetwork, NamedNetwork, Weights


class LastLayer(eqx.Module):
    """w₂ ~ N(m, A⁻¹) given all other unknowns: A = C Cᵀ.

    Attributes:
        mean: m.
        root: C, lower triangular.
    """

    mean: Float[Array, " last"]
    root: Float[Array, "last last"]


@final
class LastLayerMap(CoordinateMap):
    """The weights of the last layer, w₂, in units of their distribution given all other unknowns.

    With normal noise of precision γ and hidden units Φ, a row of which is 1 for the bias, the density of a network is

        −λ/2 ‖w₂‖² − γ/2 ‖y − Φᵀw₂‖² + terms of the other unknowns,

    so that w₂ ~ N(m, A⁻¹) with A = λ I + γ Φ Φᵀ and m = γ A⁻¹ Φ y. Here w₂ = m + C⁻ᵀ v₂ with A = C Cᵀ, and all other
    unknowns are as they are. Then v₂ ~ N(0, I), whatever the others are, and their density has w₂ integrated out.

    C comes from a QR decomposition of the hidden units, not from A itself: A has the square of their condition number,
    and in single precision its small eigenvalues, those of directions of which the data say little, would be noise.

    Attributes:
        inputs: Rows of data, standardised.
        targets: Of the same rows.
        network: Whose layers they are.
        weight_precision: λ of the last layer.
        noise_precision: γ; None if it is one of the unknowns.
    """

    inputs: Float[Array, "num_data features"]
    targets: Float[Array, " num_data"]
    network: LayeredNetwork
    weight_precision: Scalar
    noise_precision: Scalar | None

    @property
    def layout(self) -> Layout:
        """Of the unknowns: those of the network, and γ where that is one."""
        return Layout.like(unknowns_of(self.network, infers_noise=self.noise_precision is None))

    @property
    def dim(self) -> int:
        return self.layout.dim

    @property
    def mean(self) -> Float[Array, " dim"]:
        return self.forward(jnp.zeros(self.dim, self.inputs.dtype))

    def given(self, x: Float[Array, " dim"]) -> LastLayer:
        """The distribution of the last layer given the other unknowns, all that is looked at of x."""
        with jax.default_matmul_precision("highest"):  # the map is the same, whatever the products of a fit are
            hidden, noise = self._hidden_and_noise(x)
            prior = jnp.sqrt(self.weight_precision) * jnp.eye(hidden.shape[1], dtype=hidden.dtype)
            root = root_of_gram(jnp.concatenate([jnp.sqrt(noise) * hidden, prior]))
            mean = _solved(root, noise * self.targets @ hidden)
            # Once more, for what rounding has left.
            mean += _solved(root, noise * (self.targets - hidden @ mean) @ hidden - self.weight_precision * mean)
        return LastLayer(mean, root)

    def expected_log_likelihood(self, x: Float[Array, " dim"], last: LastLayer) -> Scalar:
        """E log p(y | x, w₂) over w₂ ~ N(m, A⁻¹), with m and A as given.

        If they are those of x, its derivative with respect to the other unknowns, m and A held fixed, is that of their
        log likelihood with w₂ integrated out (Fisher's identity). No decomposition is differentiated.
        """
        with jax.default_matmul_precision("highest"):
            hidden, noise = self._hidden_and_noise(x)
            # Products with a small inverse are faster than a solve for all rows of data, and than its derivative.
            inverse = solve_triangular(last.root, jnp.eye(len(last.root), dtype=hidden.dtype), lower=True)
            spread = hidden @ inverse.T
            squares = jnp.sum((self.targets - hidden @ last.mean) ** 2) + jnp.sum(spread**2)
            return 0.5 * len(self.targets) * jnp.log(noise / (2.0 * jnp.pi)) - 0.5 * noise * squares

    def forward(self, u: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return self._with_log_det(u)[0]

    def inverse(self, x: Float[Array, " dim"]) -> Float[Array, " dim"]:
        last, where = self.given(x), self.places
        with jax.default_matmul_precision("highest"):
            return x.at[where].set(last.root.T @ (x[where] - last.mean))

    def log_det_at(self, u: Float[Array, " dim"]) -> Scalar:
        return self._with_log_det(u)[1]

    def score_at(self, u: Float[Array, " dim"], score: Float[Array, " dim"]) -> Float[Array, " dim"]:
        (_, log_det), pull_back = jax.vjp(self._with_log_det, u)
        return pull_back((score, jnp.ones_like(log_det)))[0]

    @property
    def affine_part(self) -> IdentityMap:
        return IdentityMap(self.dim)

    @property
    def numbers_per_point(self) -> int:
        return len(self.places) * (self.targets.shape[-1] + len(self.places))

    def _hidden_and_noise(self, x: Float[Array, " dim"]) -> tuple[Float[Array, "num_data last"], Scalar]:
        """Φᵀ, with ones for the bias, and γ."""
        point: Weights = self.layout.unravel(x)
        hidden = self.network.hidden(point, self.inputs.T).T
        hidden = jnp.concatenate([hidden, jnp.ones((len(hidden), 1), hidden.dtype)], axis=1)
        return hidden, point["noise_precision"] if self.noise_precision is None else self.noise_precision

    def _with_log_det(self, u: Float[Array, " dim"]) -> tuple[Float[Array, " dim"], Scalar]:
        last, where = self.given(u), self.places
        moved = last.mean + solve_triangular(last.root.T, u[where], lower=False)
        return u.at[where].set(moved), -jnp.sum(jnp.log(jnp.diagonal(last.root)))

    @property
    def places(self) -> np.ndarray:
        """Where the last layer stands among the unknowns: its weights, then its bias."""
        names = self.network.last_names
        starts = np.cumsum([0, *(variable.size for variable in self.layout.variables)])
        spans = {v.name: np.arange(a, a + v.size) for v, a in zip(self.layout.variables, starts, strict=False)}
        return np.concatenate([spans[name] for name in names])


@jax.custom_vjp
def root_of_gram(rows: Float[Array, "n k"]) -> Float[Array, "k k"]:
    """The Cholesky factor C of MᵀM, with the accuracy of a QR decomposition of M.

    Its derivative is that of a Cholesky factor, which needs C alone: through a QR decomposition it would need Q too.
    """
    upper = jnp.linalg.qr(rows, mode="r")
    return (jnp.where(jnp.diagonal(upper) < 0.0, -1.0, 1.0).astype(upper.dtype)[:, None] * upper).T


def _root_and_rows(rows: Float[Array, "n k"]) -> tuple[Float[Array, "k k"], tuple[Array, Array]]:
    root = root_of_gram(rows)
    return root, (rows, root)


def _pull_back_root(saved: tuple[Array, Array], change: Float[Array, "k k"]) -> tuple[Float[Array, "n k"]]:
    """With P the lower triangle of Cᵀ C̄, its diagonal halved: Ā = C⁻ᵀ (P + Pᵀ) C⁻¹ / 2 and M̄ = 2 M Ā."""
    rows, root = saved
    with jax.default_matmul_precision("highest"):
        lower = jnp.tril(root.T @ change)
        half = lower - 0.5 * jnp.diag(jnp.diagonal(lower))
        left = solve_triangular(root.T, half + half.T, lower=False)
        return (rows @ solve_triangular(root.T, left.T, lower=False),)


root_of_gram.defvjp(_root_and_rows, _pull_back_root)


def _solved(root: Float[Array, "k k"], right: Float[Array, " k"]) -> Float[Array, " k"]:
    """A⁻¹ b with A = C Cᵀ."""
    return solve_triangular(root.T, solve_triangular(root, right, lower=True), lower=False)


def unknowns_of(network: NamedNetwork, *, infers_noise: bool) -> dict[str, Any]:
    """An example of a network's arrays by name, and with them of the noise precision, if it is inferred."""
    arrays = {name: jnp.zeros(shape, default_float()) for name, shape in network.shapes.items()}
    return arrays | ({"noise_precision": positive()} if infers_noise else {})


def last_layer_map(
    network: NamedNetwork,
    likelihood: OutputLikelihood,
    data: dict[str, Array],
    weight_precision: Float[Array, " groups"] | None,
    noise_precision: Float[Array, ""] | None,
) -> LastLayerMap | None:
    """The map of a network, or None: the noise must be normal, and the last layer be known as such."""
    # A file can hold an activation by its name alone.
    layered = isinstance(network, LayeredNetwork) and isinstance(network.activation, str)
    if not layered or not isinstance(likelihood, NormalNoise) or weight_precision is None:
        return None
    return LastLayerMap(data["x"], data["y"], network, weight_precision[-1], noise_precision)
