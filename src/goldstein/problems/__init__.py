"""Test problems with known answers, and the capped-ℓ₁ support vector machine."""

from typing import TYPE_CHECKING

from goldstein import retired
from goldstein.problems.base import Problem
from goldstein.problems.classical import chebyshev_rosenbrock_linear
from goldstein.problems.closed_form import cone, ridge, shell
from goldstein.problems.stochastic import least_absolute_deviations
from goldstein.problems.svm import SVM, capped_l1_svm

__all__ = [
    "SVM",
    "Problem",
    "capped_l1_svm",
    "chebyshev_rosenbrock_linear",
    "cone",
    "least_absolute_deviations",
    "ridge",
    "shell",
]

if not TYPE_CHECKING:
    __getattr__ = retired.names(__name__)
