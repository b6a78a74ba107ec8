"""The outcome of a run: its status and notes, and the only place where they become prose.

A message says, in this order: how the run ended; what ran and why; what the user should know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from goldstein.arguments import printable
from goldstein.run.result import Status

ENDED, RAN, KNOW = range(3)  # the sections of a message


@dataclass(frozen=True)
class Note:
    """Something to say about a run: its fields are put into its template."""

    section: ClassVar[int] = KNOW
    template: ClassVar[str] = "{text}"

    def __str__(self) -> str:
        return self.template.format(**vars(self))


@dataclass(frozen=True)
class Text(Note):
    """A sentence that is ready: of a method, a criterion or a journal."""

    text: str


class Reached(Text):
    """What a criterion or a certificate says about success."""

    section = ENDED


class Ran(Text):
    """What the method chose or found on the user's behalf."""

    section = RAN


@dataclass(frozen=True)
class InvalidCertificate(Note):
    """Rounding makes the certificate of a method worthless."""

    reason: str
    section = ENDED
    template = "The method finished, but its certificate is not valid: {reason}"


@dataclass(frozen=True)
class TooManyFailed(Note):
    """More evaluations failed than the user allows."""

    max_fail: int
    section = ENDED
    template = "More than max_fail = {max_fail} evaluations failed."


@dataclass(frozen=True)
class Selected(Note):
    """How the answer was picked among the candidates."""

    name: str
    samples: int
    section = RAN

    def __str__(self) -> str:
        how = f", by {self.samples} fresh samples of each candidate" if self.samples > 1 else ""
        return f"Returned the {self.name}{how}."


@dataclass(frozen=True)
class DrawnIteration(Note):
    """The answer of the rule "random" was drawn before the run."""

    stop_at: int
    max_iter: int
    section = RAN
    template = "The answer is the iterate after {stop_at} of {max_iter} iterations, drawn before the run."


@dataclass(frozen=True)
class Stage(Note):
    """The run is a later stage of another."""

    number: int
    nfev: int
    section = RAN
    template = "This is stage {number}, from the answer after {nfev} evaluations."


@dataclass(frozen=True)
class NoImprovement(Note):
    """The start is the answer."""

    nfev: int
    template = "No point lower than the start was found in {nfev} evaluations."


@dataclass(frozen=True)
class FarAway(Note):
    """The answer is very far from the start."""

    distance: float
    template = "The answer is {distance:.2g} away from x0. f may be unbounded below: check its sign or add bounds."


@dataclass(frozen=True)
class Failures(Note):
    """Some evaluations failed."""

    nfail: int
    evals: int
    reason: str

    def __str__(self) -> str:
        text = f"All {self.evals} evaluations failed."
        if self.nfail < self.evals:
            share = self.nfail / self.evals
            text = f"{share:.1%} of the evaluations failed; if that depends on the point, estimates are biased."
        return f"{text} The first error: {self.reason:.300}" if self.reason else text


@dataclass(frozen=True)
class DefaultBudget(Note):
    """No limit was set."""

    max_evals: int
    template = "No limit was given, so max_evals was set to 1000·(d + 1) = {max_evals}."


class StartMoved(Note):
    """The start was outside of the bounds."""

    template = "x0 is outside the bounds, so the run started at the nearest point inside."


@dataclass(frozen=True)
class LeavesSet(Note):
    """Queries may leave the allowed set."""

    radius: float
    template = "Queries may leave the allowed set by delta = {radius:.3g}."


class AllFixed(Note):
    """Bounds fix every variable."""

    section = ENDED
    template = "All variables are fixed by their bounds, so there is nothing to optimise."


class NotReplayed(Note):
    """A simulator that takes a seed does not replay its noise."""

    template = (
        "The same seed gave two different values at the same point, so this simulator does not replay its noise: "
        "draw all of it from the seed, or use Unreplayable."
    )


def noise_at_start(first: float, second: float) -> str:
    """Say how a bare callable showed its noise."""
    return (
        f"The function gave {first:.6g} and {second:.6g} at the same point, so it is treated as noise that cannot be "
        "replayed (Unreplayable); if it takes a seed, use Seeded."
    )


def flat(differences: float, delta: float, magnitude: float) -> str:
    """Warn that the run does not move."""
    return (
        f"All {differences:.0f} differences at delta={delta:.3g} are exactly 0, so the run does not move: F is flat "
        f"here, or delta is lost in its rounding errors (|F| about {magnitude:.2g})."
    )


def rounding(share: float, delta: float, magnitude: float) -> str:
    """Warn that rounding errors are not small beside the estimates."""
    return (
        f"Rounding errors of F (|F| about {magnitude:.2g}) make up {share:.0%} of the gradient estimates at "
        f"delta={delta:.3g}: use a larger delta, higher precision, or subtract a constant from F."
    )


@dataclass(frozen=True)
class Outcome:
    """How a run ended and what there is to say about it."""

    status: Status
    notes: Sequence[Note]

    @property
    def message(self) -> str:
        """The outcome in words, without control characters of a user's exceptions."""
        notes = sorted(self.notes, key=lambda note: note.section)
        sentences = [str(note) for note in notes]
        if not notes or notes[0].section != ENDED:
            words = self.status.words
            sentences.insert(0, f"{words[0].upper()}{words[1:]}.")
        return printable(" ".join(sentences))
