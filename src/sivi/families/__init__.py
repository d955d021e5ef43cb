"""Variational families: mixing layers, conditionals, and `SemiImplicit`."""

from .._networks import LocationScale
from .base import Components, Conditional, ConditionalDistribution, Family, Mixing
from .dense_gaussian import DenseGaussian
from .diagonal_gaussian import DiagonalGaussian
from .implicit_mixing import ImplicitMixing
from .normal_mixing import NormalMixing
from .semi_implicit import Joint, SemiImplicit
from .student_t import StudentT

__all__ = [
    "Components",
    "Conditional",
    "ConditionalDistribution",
    "DenseGaussian",
    "DiagonalGaussian",
    "Family",
    "ImplicitMixing",
    "Joint",
    "LocationScale",
    "Mixing",
    "NormalMixing",
    "SemiImplicit",
    "StudentT",
]
