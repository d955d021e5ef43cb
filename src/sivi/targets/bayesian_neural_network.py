"""Bayesian neural networks for regression and classification: `BayesianNeuralNetwork`."""

import math
from collections.abc import Sequence
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Num, PRNGKeyArray

from .._arguments import default_float
from .._layout import Layout
from .._types import Activation, ArrayLike, KeyLike, Scalar
from .found_precisions import FoundPrecisions
from .gamma_prior import GammaPrior
from .known_last_layer import KnownLastLayer
from .last_layer import LastLayerMap, last_layer_map, unknowns_of
from .likelihoods import OutputLikelihood
from .network_settings import (
    as_judged,
    as_likelihood,
    as_network,
    as_noise_precision,
    as_weight_precision,
    num_classes_of,
    scale_of,
)
from .networks import NamedNetwork, Weights
from .rows import as_inputs, as_targets
from .structured_model import StructuredModel
from .symmetric import HasSymmetries
from .units import Units


@final
class BayesianNeuralNetwork(StructuredModel, HasSymmetries):
    """A network whose weights are the unknowns: y ~ p(y | f_w(x)) with w ~ N(0, 1/λ).

        normal     y = f_w(x) + e,  e ~ N(0, 1/γ)
        student-t  y = f_w(x) + t/√γ,  t from a Student-t distribution
        softmax    P(y = k) = exp(f_w(x)_k) / Σ_j exp(f_w(x)_j)

    Inputs, and the targets of a regression, are standardised by the rows given here, column by column; a constant
    column of inputs becomes zeros, here and where the network predicts. Weights, noise precision, `data` are in these
    units. `predict`, `sample_predictive`, `observed`, `replicate` and `sivi.metrics.regression_scores` are in those of
    what was given.

    The unknowns are a dict: `weight_1` (features, width) and `bias_1` (width,) of the first layer, and so on; with an
    inferred noise precision also `noise_precision`.

    Precisions that are left out are found from the rows by `with_precisions`; the log density needs all of them.

    Args:
        inputs: (num_data, features).
        targets: (num_data,), numbers for a regression, and whole numbers from 0 on for `"softmax"`.
        hidden: Widths of the hidden layers.
        activation: Of the hidden layers: a function, or a name such as `"relu"` or `"tanh"`.
        likelihood: `"normal"`, `"student-t"` or `"softmax"`.
        noise_precision: γ in units of the standardised targets, for Student-t noise that of its scale. A number is
            kept; a `GammaPrior` makes it one of the unknowns; left out, it is found.
        weight_precision: λ of all weights and biases, or a tuple with one for each layer; left out, it is found. For
            `network`, a tuple has one for each of its arrays.
        degrees_of_freedom: Of `"student-t"`.
        num_classes: Of `"softmax"`; by default the largest label plus one.
        network: In place of `hidden` and `activation`, an Equinox module that maps one input vector to the output, or
            to one logit for each class. Its arrays of floating-point numbers are the unknowns, named by their paths,
            such as `layers.0.weight`.
        judged_at: Inputs, (n, features), at which a verdict compares functions; by default at most 64, some of them
            rows, some in gaps between rows, some beyond them.

    Example:
        >>> x = np.linspace(-1.0, 1.0, 20)[:, None]
        >>> y = np.sin(3.0 * x[:, 0])
        >>> model = BayesianNeuralNetwork(x, y, hidden=(5,), noise_precision=100.0, weight_precision=1.0)
        >>> model.dim, model.layout.names
        (16, ('bias_1', 'bias_2', 'weight_1', 'weight_2'))
        >>> weights = model.point(model.random_start(jax.random.key(0)))
        >>> model.predict(weights, x[:3]).shape
        (3,)
    """

    data: dict[str, Num[Array, "num_data *features"]]
    network: NamedNetwork
    likelihood: OutputLikelihood
    weight_precision: Float[Array, " groups"] | None
    noise_precision: Float[Array, ""] | GammaPrior | None
    units: Units
    judged_inputs: Float[Array, "judged features"]
    found: FoundPrecisions | None

    def __init__(
        self,
        inputs: ArrayLike,
        targets: ArrayLike,
        hidden: Sequence[int] = (50,),
        activation: str | Activation = "relu",
        *,
        likelihood: str = "normal",
        noise_precision: float | GammaPrior | None = None,
        weight_precision: ArrayLike | None = None,
        degrees_of_freedom: float = 4.0,
        num_classes: int | None = None,
        network: Any = None,
        judged_at: ArrayLike | None = None,
    ):
        x = as_inputs("inputs", inputs)
        y = as_targets("targets", targets, len(x))
        if len(x) < 2:
            raise ValueError(f"inputs must have at least two rows; got {len(x)}.")
        classes = num_classes_of(likelihood, y, num_classes)
        input_scale, target_scale = scale_of("inputs", x), scale_of("targets", y if classes is None else None)
        standardised = input_scale.apply(x)
        self.likelihood = as_likelihood(likelihood, degrees_of_freedom, classes)
        self.network = as_network(network, x.shape[1], self.likelihood.num_outputs, hidden, activation)
        self.weight_precision = as_weight_precision(weight_precision, self.network)
        self.noise_precision = as_noise_precision(noise_precision, self.likelihood)
        y = jnp.asarray(target_scale.apply(y), default_float()) if classes is None else jnp.asarray(y, jnp.int32)
        self.data = {"x": jnp.asarray(standardised, default_float()), "y": y}
        self.units = Units.of(input_scale, target_scale, np.ptp(x, axis=0) == 0.0)
        judged = as_judged(judged_at, standardised, input_scale, self.likelihood)
        self.judged_inputs = jnp.asarray(judged, default_float())
        self.found = None

    @property
    def like(self) -> dict[str, Any]:
        return unknowns_of(self.network, infers_noise=isinstance(self.noise_precision, GammaPrior))

    @property
    def layout(self) -> Layout:
        return Layout.like(self.like)

    @property
    def conditional_coordinates(self) -> LastLayerMap | None:
        """Of a regression with normal noise by `hidden` layers: the last layer in units of its exact conditional."""
        self._check_complete()
        noise = None if isinstance(self.noise_precision, GammaPrior) else self.noise_precision
        return last_layer_map(self.network, self.likelihood, self.data, self.weight_precision, noise)

    @property
    def in_conditional_coordinates(self) -> KnownLastLayer | None:
        return KnownLastLayer.of(self, self.conditional_coordinates)

    @property
    def numbers_per_row(self) -> int:
        return self.network.width

    @property
    def left_out(self) -> tuple[str, ...]:
        """The precisions that the log density still needs."""
        needed = ("noise_precision", "weight_precision") if self.likelihood.has_noise else ("weight_precision",)
        return tuple(name for name in needed if getattr(self, name) is None)

    def with_precisions(self, key: KeyLike, *, method: str = "hmc") -> "BayesianNeuralNetwork":
        """This model with the precisions that were left out, found from its rows; what was given is kept.

        `"hmc"` draws weights and log precisions together, in a few short chains on nine tenths of the rows, at most
        2,000 of them, under very weak priors. The weight precision of each layer is the median of its draws. The noise
        precision is then the one under which the draws predict the other tenth of the rows best, drawn towards the
        median of its draws where these rows are few. `"svgd"` does the same with the particles of Stein variational
        gradient descent, in minibatches, as the paper's comparison did; there it is no faster.

        Args:
            key: An int or a JAX key.
            method: `"hmc"` or `"svgd"`.

        Returns:
            The model, with both precisions fixed; `notes` says what was found. Itself, if nothing was left out.
        """
        from .._precisions import with_precisions

        return with_precisions(self, key, method)

    def prepared(self, key: KeyLike) -> "BayesianNeuralNetwork":
        return self.with_precisions(key) if self.left_out else self

    def completed(
        self,
        weight_precision: Float[Array, " groups"] | None,
        noise_precision: Float[Array, ""] | None,
        how: str | None = None,
    ) -> "BayesianNeuralNetwork":
        """This model with given precisions in place of those that were left out, and of no others.

        Args:
            weight_precision: λ of each layer; not looked at, if it was given.
            noise_precision: γ; likewise.
            how: Where they come from, for `notes`; None if these need not tell.
        """
        model, names = self, self.left_out
        values = {"noise_precision": noise_precision, "weight_precision": weight_precision}
        for name in names:
            model = _with_field(model, name, values[name])
        return model if how is None or not names else _with_field(model, "found", FoundPrecisions(names, how))

    def with_rows(self, rows: np.ndarray) -> "BayesianNeuralNetwork":
        """This model of some of its rows, in the same units."""
        return eqx.tree_at(lambda model: model.data, self, jax.tree.map(lambda leaf: leaf[rows], self.data))

    @property
    def notes(self) -> tuple[str, ...]:
        if self.found is None:
            return ()
        return (self.found.in_words(noise_precision=self.noise_precision, weight_precision=self.weight_precision),)

    def outputs(self, p: Weights, x: Float[Array, "n features"]) -> Float[Array, "outputs n"]:
        """The outputs of the network at standardised inputs."""
        return self.network.outputs(p, x.T)

    def log_prior(self, x: Weights) -> Scalar:
        self._check_complete()
        total = jnp.zeros((), self.data["x"].dtype)
        for name, group in self.network.groups.items():
            precision = self.weight_precision[group]  # pyright: ignore[reportOptionalSubscript]
            log_scale = 0.5 * (jnp.log(precision) - math.log(2.0 * math.pi))
            total += x[name].size * log_scale - 0.5 * precision * jnp.sum(x[name] ** 2)
        if isinstance(self.noise_precision, GammaPrior):
            total += self.noise_precision.log_density(x["noise_precision"])
        return total

    def log_likelihood(self, x: Weights, datum: dict[str, Array]) -> Scalar:
        return self.log_likelihoods(x, jax.tree.map(lambda leaf: leaf[None], datum))[0]

    def log_likelihoods(self, x: Weights, data: dict[str, Array]) -> Float[Array, " n"]:
        return self.likelihood.log_densities(self.outputs(x, data["x"]), data["y"], self._noise(x))

    def predict(self, x: Weights, inputs: Num[ArrayLike, "n features"]) -> Float[Array, "n *classes"]:
        """The mean of the targets at new inputs, in the units of those given; of `"softmax"`, probabilities."""
        return self.predict_rows(x, {"x": self.units.standardised(inputs)})

    def rows_of_inputs(self, inputs: Any) -> dict[str, Array]:
        return {"x": self.units.standardised(inputs)}

    def predict_rows(self, x: Weights, data: dict[str, Array]) -> Float[Array, "n *classes"]:
        """`predict` for rows as `data` has them, in standardised units."""
        mean = self.likelihood.mean(self.outputs(x, data["x"]))
        return self.units.raw(mean) if self.likelihood.has_noise else mean

    def sample_datum(self, key: PRNGKeyArray, x: Weights, datum: dict[str, Array]) -> Num[Array, ""]:
        """A target at the inputs of a datum, standardised as in `data`."""
        return self.likelihood.sample(key, self.outputs(x, datum["x"][None]), self._noise(x))[0]

    def sample_predictive(
        self, key: PRNGKeyArray, x: Weights, inputs: Num[ArrayLike, "n features"]
    ) -> Num[Array, " n"]:
        """New targets at new inputs, noise included, at one point: a draw of the predictive distribution.

        For all draws of a posterior, `jax.vmap(lambda key, p: model.sample_predictive(key, p, inputs))(keys, draws)`
        with `draws = posterior.sample(n, key)` and `keys = jax.random.split(other_key, n)`.

        Args:
            key: Random key.
            x: The weights, and the noise precision if that is inferred, by name.
            inputs: In the units of those given.
        """
        outputs = self.outputs(x, self.units.standardised(inputs))
        return self.units.raw(self.likelihood.sample(key, outputs, self._noise(x)))

    @property
    def observed(self) -> dict[str, Array]:
        """The targets in the units in which they were given."""
        return {"y": self.units.raw(self.data["y"])}

    def pointwise_log_likelihood(self, x: Float[Array, " dim"]) -> dict[str, Array]:
        """log p(y_n | x) of the targets in the units in which they were given."""
        return {"y": self.log_likelihoods(self.point(x), self.data) - jnp.log(self.units.target_sd)}

    def replicate(self, key: PRNGKeyArray, x: Float[Array, " dim"]) -> dict[str, Array]:
        """New targets in the units in which they were given."""
        point = self.point(x)
        return {
            "y": self.units.raw(self.likelihood.sample(key, self.outputs(point, self.data["x"]), self._noise(point)))
        }

    def as_data(self, inputs: ArrayLike, targets: ArrayLike) -> dict[str, np.ndarray]:
        """Other rows in the structure and units of `data`, such as held-out ones for `sivi.metrics.predictive_scores`.

        Example:
            >>> model = BayesianNeuralNetwork([[0.0], [2.0]], [10.0, 30.0])
            >>> model.as_data([[3.0]], [20.0])
            {'x': array([[2.]]), 'y': array([0.])}
        """
        x = as_inputs("inputs", inputs, self.data["x"].shape[1])
        x, y = self.units.standardised_rows(x, as_targets("targets", targets, len(x)))
        self.check_data(data := {"x": x, "y": y})
        return data

    def check_data(self, data: dict[str, Any]) -> None:
        if not self.likelihood.has_noise:
            num_classes_of("softmax", np.asarray(data["y"]), self.likelihood.num_outputs)

    def predictions(self, x: Float[Array, " dim"]) -> Float[Array, " quantities"]:
        """The function in standardised units at `judged_inputs`; of classes, log probabilities without their mean."""
        point = self.point(x)
        functions = self.likelihood.functions(self.outputs(point, self.judged_inputs)).T.ravel()
        if not isinstance(self.noise_precision, GammaPrior):
            return functions
        return jnp.append(functions, jnp.log(point["noise_precision"]))

    @property
    def prediction_names(self) -> tuple[str, ...]:
        count, classes = len(self.judged_inputs), self.likelihood.num_outputs
        names = [f"f[{i}]" for i in range(count)]
        if not self.likelihood.has_noise:
            names = [f"f[{i},{k}]" for i in range(count) for k in range(classes - 1)]
        return (*names, "log noise_precision") if isinstance(self.noise_precision, GammaPrior) else tuple(names)

    def random_start(self, key: PRNGKeyArray) -> Float[Array, " dim"]:
        """Weights ~ N(0, 1/fan_in) of their layer, and an inferred noise precision of 1.

        Of `network`, matrices are drawn so, with a row for each output; other arrays are as given.
        """
        is_inferred = isinstance(self.noise_precision, GammaPrior)
        noise = {"noise_precision": jnp.ones((), default_float())} if is_inferred else {}
        return self.layout.ravel(self.network.random_weights(key) | noise)

    def _noise(self, p: Weights) -> Scalar:
        self._check_complete()
        if isinstance(self.noise_precision, GammaPrior):
            return p["noise_precision"]
        return jnp.ones(()) if self.noise_precision is None else self.noise_precision

    def _check_complete(self) -> None:
        if missing := self.left_out:
            names = " and ".join(missing)
            found = "use model.with_precisions(key) in place of the model, or give them as numbers"
            raise ValueError(f"{names} must be given for a density, or found first; {found}.")


def _with_field(model: BayesianNeuralNetwork, name: str, value: Any) -> BayesianNeuralNetwork:
    """The model with a value in place of a field that is None."""
    return eqx.tree_at(lambda model: getattr(model, name), model, value, is_leaf=lambda leaf: leaf is None)
