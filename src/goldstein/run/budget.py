"""The budget of a run: what may still be asked for, and when a limit is reached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from goldstein.facts import Facts
from goldstein.run.result import Status


@dataclass
class Budget:
    """The limits of a run, and the evaluations that are reserved."""

    max_evals: int | None = None
    max_iter: int | None = None
    stop_at: int | None = None  # iterations after which the run ends: `max_iter`, or one drawn before
    max_fail: int | None = None
    before: int = 0  # evaluations made before the method began
    final_evals: int = 0  # reserved for the final estimate,
    reserved_evals: int = 0  # and for it and the next check of the criteria: the method leaves them

    @classmethod
    def of(cls, limits: Mapping[str, int | None], max_fail: int | None) -> Budget:
        """Return the budget for the limits of a stage."""
        return cls(limits["max_evals"], limits["max_iter"], limits["max_iter"], max_fail)

    @property
    def limits(self) -> dict[str, int | None]:
        return {"max_evals": self.max_evals, "max_iter": self.max_iter}

    def remaining(self, facts: Facts, reserved: int = 0) -> int | None:
        """Return how many evaluations may still be made if `reserved` are left over; None: any number."""
        return None if self.max_evals is None else self.max_evals - facts.counted - reserved

    def for_method(self, facts: Facts) -> int | None:
        """Return how many evaluations the method may still ask for; None: any number."""
        return self.remaining(facts, self.reserved_evals)

    def planned(self) -> int | None:
        """Return how many evaluations the method may plan with."""
        return None if self.max_evals is None else max(self.max_evals - self.before - self.final_evals, 0)

    def too_many_failed(self, facts: Facts) -> bool:
        return self.max_fail is not None and facts.nfail > self.max_fail

    def status(self, facts: Facts, nit: int) -> Status | None:
        """Return which limit is reached; None when none is."""
        if self.stop_at is not None and nit >= self.stop_at:
            return Status.MAX_ITER
        remaining = self.for_method(facts)
        if remaining is not None and remaining <= 0:
            return Status.MAX_EVALS
        return None
