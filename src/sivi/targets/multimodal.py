"""The multimodal Gaussian of the SIVI-SM paper's toy examples."""

from .gaussian_mixture import GaussianMixture, MixtureTarget


class Multimodal(MixtureTarget):
    """½ N((−2, 0), I) + ½ N((2, 0), I).

    Reference:
        Yu and Zhang, Semi-implicit variational inference via score matching (ICLR 2023), appendix E.
    """

    mixture: GaussianMixture

    def __init__(self) -> None:
        identity = [[1.0, 0.0], [0.0, 1.0]]
        self.mixture = GaussianMixture([[-2.0, 0.0], [2.0, 0.0]], [identity, identity])
