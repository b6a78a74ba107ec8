"""The notes of a run: what there is to say about it, and warnings, each once."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from goldstein.facts import Facts
from goldstein.methods.method import Step
from goldstein.run.outcome import Note, Ran, Text, flat, rounding
from goldstein.warnings import warn as warn_user

FLAT = 50  # differences that are all exactly 0 are worth a warning from this many on,
FLAT_WITH_NOISE = 500  # and with noise, where many components may be flat though f is not


class Notes:
    """What there is to say about a run; `warn(key, sentence)` warns at once."""

    def __init__(self, warn: Callable[[str, str], None] | None = None) -> None:
        self.warn = warn or (lambda key, sentence: warn_user(sentence))
        self.recognised = ""  # how noise showed in a function that was taken to have none
        self.failure = ""  # why the first failed evaluation failed
        self.method_notes: dict[str, str] = {}  # what the method says, by key
        self._notes: list[Note] = []
        self._warned: set[str] = set()

    def add(self, *notes: Note) -> None:
        self._notes.extend(notes)

    def recognise(self, reason: str) -> None:
        self.recognised = reason
        self.add(Text(reason))

    def take(self, step: Step) -> str:
        """Take what a step says; return what the method has newly chosen, if anything."""
        if step.warnings:
            self.warn_once(step.warnings)
        if not step.notes:
            return ""
        choice = step.notes.get("choice", "")
        if choice == self.method_notes.get("choice", ""):
            choice = ""
        self.method_notes.update(step.notes)
        return choice

    def all(self) -> list[Note]:
        return [*self._notes, *(Ran(text) for text in self.method_notes.values())]

    def warn_once(self, warnings: Mapping[str, str]) -> None:
        for key, sentence in warnings.items():
            if key not in self._warned:
                self._warned.add(key)
                self.warn(key, sentence)

    def check_precision(self, step: Step, facts: Facts, noisy: bool) -> None:
        """Compare the rounding error of an estimate, about d·u·|F|/δ, with the estimates themselves."""
        if not step.delta:
            return
        if not step.mean_sq_norm:
            if step.n_estimates >= (FLAT_WITH_NOISE if noisy else FLAT):
                self.warn_once({"flat": flat(step.n_estimates, step.delta, facts.magnitude)})
            return
        error = step.x.size * facts.roundoff * facts.magnitude / step.delta
        typical = step.mean_sq_norm**0.5
        if error > 0.1 * typical:
            self.warn_once({"precision": rounding(error / typical, step.delta, facts.magnitude)})
