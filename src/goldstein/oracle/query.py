"""What flows between a method and whoever evaluates: points out, values back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Samples = npt.NDArray[Any]
Sampler = Callable[[np.random.Generator, int], Samples]


@dataclass(eq=False)
class Query:
    """A batch of evaluations that a method asks for; it is not changed after that.

    Attributes
    ----------
    points : ndarray, shape (k, d)
        Where F is to be evaluated.
    samples : ndarray, shape (k, ...), or None
        The ξ of each row: an index (`FiniteSum`), a draw (`Expectation`), a seed (`Seeded`).
        Rows with the same ξ must see the same noise. None when there is no ξ to choose.
    order : int
        0: the value F(x; ξ), answered with shape (k,). 1: the gradient, answered with shape (k, d).
    cut : bool
        The batch is smaller than the method wanted, because the budget ends here.
    memory : object
        What the method needs to read the answer (its directions, say). Not for the evaluator.
    outside : bool
        Points and answer are in the user's coordinates, not in those of the run, which are x / x_scale.
    """

    points: Array
    samples: Samples | None = None
    order: int = 0
    cut: bool = False
    memory: Any = None
    outside: bool = False

    def __len__(self) -> int:
        return len(self.points)
