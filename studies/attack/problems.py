"""What the attack study attacks: two data sets with their networks, and how much of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from studies.attack import lenet
from studies.attack.lenet import Floats, LeNet

SEED = 0

Images = tuple[Floats, npt.NDArray[np.int64]]


@dataclass(frozen=True)
class Attacks:
    """How much of the study is run.

    `rounds` are the numbers of training images after which the better third of the settings goes on.
    """

    images: int = 1000
    max_queries: int = 10_000
    rounds: tuple[int, ...] = (24, 48, 100)
    tuning_queries: int = 5_000
    schedule: str = "short"


FULL = Attacks()
QUICK = Attacks(images=20, max_queries=500, rounds=(2, 4), tuning_queries=150, schedule="quick")


@dataclass(frozen=True)
class Problem:
    """A data set with its network; images are in the order in which the study takes them."""

    name: str
    model: LeNet
    tuning: Images
    report: Images
    network: Mapping[str, Any]

    @property
    def weights(self) -> str:
        """What tells the network from others."""
        return lenet.digest(self.model.weights)


def shuffled(images: Floats, labels: npt.NDArray[np.int64], most: int) -> Images:
    """Return the first of the images in a random order that is always the same."""
    order = np.random.default_rng(SEED).permutation(len(images))[:most]
    return images[order], labels[order]


def load(
    scale: Attacks, weights: Path, data: Path | None = None, told: Callable[[str], Any] | None = None
) -> list[Problem]:
    """Return the two problems; a network that has no file in `weights` yet is trained first."""
    problems = []
    for name in lenet.DATA:

        def say(epoch: int, loss: float, name: str = name) -> None:
            if told is not None:
                told(f"training {name}, epoch {epoch}")

        model = lenet.trained(name, weights, schedule=scale.schedule, data=data, told=say)
        network = lenet.summary(name, model, scale.schedule, data)
        tuning = shuffled(*lenet.pixels(name, "train", data), scale.rounds[-1])
        report = shuffled(*lenet.pixels(name, "test", data), scale.images)
        problems.append(Problem(name, model, tuning, report, network))
    return problems
