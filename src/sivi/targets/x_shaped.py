"""The X-shaped mixture of the SIVI-SM paper's toy examples."""

from .gaussian_mixture import GaussianMixture, MixtureTarget


class XShaped(MixtureTarget):
    """½ N(0, Σ₁) + ½ N(0, Σ₂) with variances 2 and covariances ±1.8.

    Reference:
        Yu and Zhang, Semi-implicit variational inference via score matching (ICLR 2023), appendix E.
    """

    mixture: GaussianMixture

    def __init__(self) -> None:
        origin = [0.0, 0.0]
        self.mixture = GaussianMixture([origin, origin], [[[2.0, 1.8], [1.8, 2.0]], [[2.0, -1.8], [-1.8, 2.0]]])
