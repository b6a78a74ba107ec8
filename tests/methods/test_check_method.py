"""`check_method` says in one sentence what is wrong with a method: each of these breaks one promise."""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pytest

import goldstein as gs
from goldstein.methods import MethodState
from goldstein.testing import START, check_method


@dataclass
class BallState(MethodState):
    v: Any = None


@dataclass(frozen=True)
class Sound(gs.Method):
    """The method of docs/add-a-method.md, in pieces that can be broken one by one."""

    delta: float = 0.1
    step_size: float = 0.02
    beta: float = 0.9
    name: ClassVar[str] = "sound"

    @property
    def needs(self):
        return gs.Needs(pairs=self.delta, query_radius=self.delta)

    def init(self, x, context):
        return BallState(x, v=np.zeros_like(x))

    def samples(self, context):
        return None if context.sample is None else np.repeat(context.sample(context.rng, 1), 2, axis=0)

    def ask(self, state, context, limit):
        if limit is not None and limit < 2:
            return None
        w = gs.smoothing.sphere(context.rng, 1, state.x.size)[0]
        points = np.stack([state.x + self.delta * w, state.x - self.delta * w])
        return gs.Query(points, self.samples(context), aux=w)

    def estimate(self, state, query, values):
        return state.x.size / (2 * self.delta) * (values[0] - values[1]) * query.aux

    def tell(self, state, context, query, values):
        left = state.x
        state.nit += 1
        if np.isfinite(values).all():
            state.v = self.beta * state.v + (1 - self.beta) * self.estimate(state, query, values)
            self.move(state, context)
            state.value = float(values.mean())
        return state.make_step(left)

    def move(self, state, context):
        state.x = context.projected(state.x - self.step_size * state.v, self.delta)

    @classmethod
    def from_scale(cls, scale, options):
        delta = options.get("delta", max(scale.floor, 1e-3 * scale.radius))
        step_size = 2 * scale.radius / (scale.estimate * float(np.sqrt(scale.evals / 2)))
        return cls(**{"delta": delta, "step_size": step_size, **options})


def test_a_sound_method_passes():
    check_method(Sound())


def fails(method, sentence):
    with pytest.raises(AssertionError, match=sentence) as found:
        check_method(method)
    assert "\n" not in str(found.value)
    assert len(str(found.value)) < 500


# A run that is saved and goes on.


class NoDataclass(MethodState):
    v = 0.0


class NoFields(Sound):
    def init(self, x, context):
        return NoDataclass(x)


@dataclass
class Untold(MethodState):
    pass


class NewAttribute(Sound):
    def init(self, x, context):
        state = Untold(x)
        state.v = np.zeros_like(x)
        return state


@dataclass
class Bag(BallState):
    seen: Any = None


class SetInside(Sound):
    def init(self, x, context):
        return Bag(x, v=np.zeros_like(x), seen={1, 2})


class InSelf(Sound):
    """Remembers its direction in itself; a new run forgets it, so that two runs one after another are the same."""

    def init(self, x, context):
        object.__setattr__(self, "v", np.zeros_like(x))
        return MethodState(x)

    def tell(self, state, context, query, values):
        whole = BallState(state.x, state.nit, v=self.v)
        step = super().tell(whole, context, query, values)
        object.__setattr__(self, "v", whole.v)
        state.x, state.nit = whole.x, whole.nit
        return step


@dataclass(frozen=True)
class InSetting(Sound):
    """Remembers its direction in a setting that can be changed."""

    memory: dict = field(default_factory=dict)

    def init(self, x, context):
        self.memory.clear()
        return BallState(x, v=np.zeros_like(x))

    def move(self, state, context):
        self.memory["steps"] = self.memory.get("steps", 0) + 1
        state.x = context.projected(state.x - self.step_size * self.memory["steps"] ** -0.5 * state.v, self.delta)


class InContext(Sound):
    def move(self, state, context):
        context.steps = getattr(context, "steps", 0) + 1
        state.x = context.projected(state.x - self.step_size * context.steps**-0.5 * state.v, self.delta)


class KeysAreNumbers(Sound):
    """What a snapshot writes as text comes back as text."""

    def init(self, x, context):
        return BallState(x, v={0: np.zeros_like(x)})

    def tell(self, state, context, query, values):
        whole = BallState(state.x, state.nit, v=state.v[0])
        step = super().tell(whole, context, query, values)
        state.v = {0: whole.v}
        state.x, state.nit = whole.x, whole.nit
        return step


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        (NoFields, "NoDataclass is no dataclass; write @dataclass above it"),
        (NewAttribute, "Untold holds v, which a snapshot leaves out; make each a field"),
        (SetInside, "A state holds plain data only"),
        (InSelf, "saved after .* goes another way; keep all that changes in fields of the state, and nothing in self"),
        (InSetting, "saved after .* goes another way"),
        (InContext, "saved after .* goes another way"),
        (KeysAreNumbers, "saved after .* fails with KeyError: 0; keep all that changes in fields of the state"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_state_that_a_snapshot_does_not_hold(method, sentence):
    fails(method(), f"^state_is_plain_data on a deterministic function: .*{sentence}")


def test_a_method_that_waits_for_its_answer_in_itself_cannot_serve_two_runs():
    class Waits(Sound):
        def ask(self, state, context, limit):
            query = super().ask(state, context, limit)
            if query is not None:
                object.__setattr__(self, "w", query.aux)
            return query

        def estimate(self, state, query, values):
            return super().estimate(state, replace(query, aux=self.w), values)

    fails(Waits(), "^runs_do_not_meet on a deterministic function: .* what tell needs of a query in query.aux")


# Bounds.


class NeverProjects(Sound):
    def move(self, state, context):
        state.x = state.x - self.step_size * state.v


class NoMargin(Sound):
    def move(self, state, context):
        state.x = context.projected(state.x - self.step_size * state.v, 0.0)


class NoReach(Sound):
    needs = gs.Needs()


def test_iterates_outside_of_bounds():
    fails(NeverProjects(), r"^bounds_are_kept on .* an iterate lies outside of the bounds by .* context.projected")


@pytest.mark.parametrize("method", [NoMargin, NoReach])
def test_queries_outside_of_bounds(method):
    fails(method(), r"^queries_keep_to_bounds on .* a query lies outside of the bounds by .* query_radius=…, and let")


def test_iterates_outside_are_named_even_if_queries_may_be_there():
    class Far(NeverProjects):
        needs = gs.Needs(query_radius=10.0)

    fails(Far(), "^bounds_are_kept on a deterministic function: an iterate lies outside of the bounds by")


def test_a_method_may_refuse_sets():
    class Free(NeverProjects):
        def init(self, x, context):
            if context.project is not None:
                raise ValueError("free works without constraints.")
            return super().init(x, context)

    check_method(Free())


# Iterates.


def test_an_iterate_changed_in_place():
    class InPlace(Sound):
        def move(self, state, context):
            state.x -= self.step_size * state.v
            state.x = context.projected(state.x, self.delta)

    before = START.copy()
    fails(InPlace(), "^iterates_are_not_changed_in_place on .* write state.x = state.x - … and not state.x -= …")
    assert np.array_equal(START, before)


def test_samples_that_were_forgotten():
    class Forgets(Sound):
        def samples(self, context):
            return None

    class OneForAll(Sound):
        def samples(self, context):
            return None if context.sample is None else context.sample(context.rng, 1)

    fails(Forgets(), "^queries_can_be_answered on a finite sum: a query of 2 points has no samples, .* context.sample")
    fails(OneForAll(), "^queries_can_be_answered on a finite sum: a query of 2 points has 1 samples")


@pytest.mark.parametrize("after", [3, 300])
def test_an_iterate_that_is_not_finite(after):
    class Breaks(Sound):
        def move(self, state, context):
            super().move(state, context)
            if state.nit == after:
                state.x = state.x * np.nan

        def ask(self, state, context, limit):
            return super().ask(replace(state, x=np.nan_to_num(state.x)), context, limit)

    check = "iterates_are_finite" if after == 3 else "descends"
    fails(Breaks(), f"^{check} on a deterministic function: the iterate is not finite: x is .nan nan nan nan. after")


# What is not what it should be.


class TellsNothing(Sound):
    def tell(self, state, context, query, values):
        super().tell(state, context, query, values)


class AsksNothing(Sound):
    def ask(self, state, context, limit):
        return gs.Query(np.empty((0, state.x.size)), None if context.sample is None else np.empty(0, int))


class FlatPoints(Sound):
    def ask(self, state, context, limit):
        return gs.Query(state.x)


class BarePoints(Sound):
    def ask(self, state, context, limit):
        return state.x[None]


class NeverAsks(Sound):
    def ask(self, state, context, limit):
        return None


class NoState(Sound):
    def init(self, x, context):
        return None


class Raises(Sound):
    def tell(self, state, context, query, values):
        return state.nothing


class Stays(Sound):
    def move(self, state, context):
        pass


class Climbs(Sound):
    def move(self, state, context):
        state.x = context.projected(state.x + self.step_size * state.v, self.delta)


class NoProperty(Sound):
    def needs(self):
        return gs.Needs()


@pytest.mark.parametrize(
    ("method", "check", "sentence"),
    [
        (TellsNothing, "queries_can_be_answered", "tell returned None; return a Step"),
        (AsksNothing, "queries_can_be_answered", "ask returned a query without points"),
        (FlatPoints, "queries_can_be_answered", r"the points of a query have shape \(4,\); make it \(k, 4\)"),
        (BarePoints, "queries_can_be_answered", "ask returned a ndarray; return a Query, or None"),
        (NeverAsks, "queries_can_be_answered", "ask returned None with 400 evaluations left"),
        (NoState, "queries_can_be_answered", "init returned None; return a MethodState"),
        (Raises, "queries_can_be_answered", "the run fails with AttributeError: .*nothing"),
        (NoProperty, "needs", r"needs is a method; make it a property that returns Needs\(…\)"),
        (Stays, "descends", r"the run never moved: after \d+ iterations and \d+ evaluations x is x0"),
        (Climbs, "descends", "f rose from 3.75 to .* check the sign of the step"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_one_sentence_that_names_the_check(method, check, sentence):
    fails(method(), f"^{check} on a deterministic function: {sentence}")


def test_anything_but_a_method_with_its_settings():
    with pytest.raises(TypeError, match=r"takes a method with its settings, Sound\(…\), got the class alone"):
        check_method(Sound)
    with pytest.raises(TypeError, match=r"takes a method with its settings, .* got 'gfm'"):
        check_method("gfm")


# Settings that are guessed.


def test_a_guess_that_fails():
    class Divides(Sound):
        @classmethod
        def from_scale(cls, scale, options):
            return cls(**{"delta": 1 / scale.floor, **options})

    class Nothing(Sound):
        @classmethod
        def from_scale(cls, scale, options):
            cls(**options)

    fails(Divides(), "^from_scale_keeps_options on .* fails with ZeroDivisionError")
    fails(Nothing(), "^from_scale_keeps_options on .* returned None; return a Nothing")


@pytest.mark.parametrize("dropped", ["delta", "step_size", "beta"])
def test_a_guess_that_drops_what_was_given(dropped):
    class Drops(Sound):
        @classmethod
        def from_scale(cls, scale, options):
            return super().from_scale(scale, {name: value for name, value in options.items() if name != dropped})

    fails(Drops(), f"^from_scale_keeps_options on .* from_scale was given {dropped}=.* let options come last")


def test_a_method_that_chooses_nothing_needs_no_guess():
    @dataclass(frozen=True)
    class Plain(gs.Method):
        delta: float
        step_size: float
        beta: float = 0.9
        name: ClassVar[str] = "plain"
        needs, init, samples, ask = Sound.needs, Sound.init, Sound.samples, Sound.ask
        estimate, tell, move = Sound.estimate, Sound.tell, Sound.move

    check_method(Plain(0.1, 0.02))
    check_method(gs.WarmStart(gs.GFM(0.1, 0.02), gs.GFM(0.05, 0.01)))
