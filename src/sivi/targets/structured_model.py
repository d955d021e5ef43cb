"""Prior, likelihood and data with named and constrained unknowns: `StructuredModel`."""

import equinox as eqx
from jaxtyping import Array, Float, PyTree

from .._layout import Layout
from .._types import Scalar
from .bayesian_model import BayesianModel


class StructuredModel(BayesianModel):
    """A `BayesianModel` whose functions take named, constrained unknowns, in minibatches as well.

    `like` is an example of the unknowns: its leaves are numbers, arrays and constraints such as `sivi.positive()`. The
    functions get a point p in this structure, and are densities of it: the log determinant is added here.

        log p(x) = log_prior(p) + log |det ∂p/∂x| + N/|batch| Σ_n log_likelihood(p, datum_n),    p = point(x).

    Attributes:
        data: A pytree of arrays that share their leading axis (one entry per datum).
        like: The example; a property, if it depends on the data.

    Example:
        >>> import jax.numpy as jnp
        >>> from jax.scipy.stats import norm
        >>> from sivi import positive
        >>> class Normal(StructuredModel):
        ...     data: Array
        ...     @property
        ...     def like(self):
        ...         return {"mean": 0.0, "scale": positive()}
        ...     def log_prior(self, p):
        ...         return norm.logpdf(p["mean"]) - p["scale"]
        ...     def log_likelihood(self, p, datum):
        ...         return norm.logpdf(datum, p["mean"], p["scale"])
        >>> model = Normal(jnp.array([1.0, 2.0]))
        >>> model.dim, model.layout.names, float(model.point(jnp.zeros(2))["scale"])
        (2, ('mean', 'scale'), 1.0)
    """

    like: eqx.AbstractVar[PyTree]

    @property
    def layout(self) -> Layout:
        return Layout.like(self.like)

    @property
    def dim(self) -> int:
        return self.layout.dim

    def point(self, x: Float[Array, " dim"]) -> PyTree:
        return self.layout.unravel(x)

    def log_jacobian(self, x: Float[Array, " dim"]) -> Scalar | float:
        layout = self.layout
        return layout.log_det(x) if layout.is_constrained else 0.0
