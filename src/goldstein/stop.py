"""Stopping criteria: what the user calls success."""

from goldstein.criterion import Criterion, Target
from goldstein.stationarity.criterion import Stationary

__all__ = ["Criterion", "Stationary", "Target"]
