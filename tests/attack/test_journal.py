"""An attack that was broken off goes on where it was: images that are done are not asked about again."""

import os
import signal
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import goldstein as gs
from goldstein.attack import attack
from goldstein.attack.journal import IMAGE
from goldstein.attack.sign import SignAveraging
from goldstein.run import records

N = 12
IMAGES = np.random.default_rng(0).uniform(0.3, 0.7, size=(N, 4, 4)).astype(np.float32)
WEIGHTS = np.random.default_rng(1).normal(size=(16, 3))
SETTINGS = {"radius": 0.08, "max_queries": 120, "seed": 3, "chunk": 8, "at_once": 3}


def scores(x):
    return np.einsum("kd,dc->kc", x.reshape(len(x), -1).astype(float), WEIGHTS)  # each row by itself


LABELS = scores(IMAGES).argmax(axis=1)


class Counting:
    """A model that counts its rows, and raises or dies when it has seen enough of them."""

    def __init__(self, most=np.inf, killing=False):
        self.rows = 0
        self.most = most
        self.killing = killing

    def __call__(self, x):
        if self.rows + len(x) > self.most:
            if self.killing:
                os.kill(os.getpid(), signal.SIGKILL)
            raise OSError("the model is gone")
        self.rows += len(x)
        return scores(x)


def same(a, b):
    for name in ("x", "success", "misclassified", "queries", "queries_estimation", "predicted", "labels"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert a.errors == b.errors


def run(model, path=None, labels=LABELS, **more):
    return attack(model, IMAGES, labels, journal=path, **{**SETTINGS, **more})


@pytest.mark.parametrize("labels", [LABELS, None], ids=["labels", "no labels"])
def test_what_is_done_is_not_asked_again_and_the_result_is_the_same(tmp_path, labels):
    path = tmp_path / "attack.journal"
    whole = run(scores, labels=labels)
    broken = Counting(most=int(whole.queries.sum()) * 2 // 3)
    with pytest.raises(OSError, match="gone") as caught:
        run(broken, path, labels=labels)
    unfinished = list(caught.value.result.errors)
    assert 0 < len(unfinished) < N
    rest = Counting()
    done = []
    resumed = run(rest, path, labels=labels, progress=lambda ended, n: done.append(ended))
    same(resumed, whole)
    assert rest.rows == whole.queries[unfinished].sum()
    assert done[0] > N - len(unfinished)
    again = Counting(most=0)
    same(run(again, path, labels=labels), whole)
    assert again.rows == 0


KILLED = """
import sys
import tests.attack.test_journal as t
t.run(t.Counting(most=int(sys.argv[2]), killing=True), sys.argv[1])
"""


def test_a_killed_attack_goes_on(tmp_path):
    whole = run(scores)
    path = tmp_path / "attack.journal"
    root = Path(__file__).parents[2]
    folders = [str(root), str(root / "tests" / "support"), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    for share in (0.3, 0.5):
        most = str(int(whole.queries.sum() * share))
        process = subprocess.run([sys.executable, "-c", KILLED, path, most], env=env, check=False)
        assert process.returncode == -signal.SIGKILL
    rest = Counting()
    same(run(rest, path), whole)
    assert rest.rows < whole.queries.sum()


def test_images_that_the_model_fails_on_are_done_with_their_error(tmp_path):
    def model(x):
        out = scores(x)
        out[(x == IMAGES[2]).all(axis=(1, 2))] = np.nan
        return out

    path = tmp_path / "attack.journal"
    first = run(model, path)
    assert list(first.errors) == [2]
    same(run(Counting(most=0), path), first)


def test_a_torn_tail_is_an_image_that_is_not_done(tmp_path):
    path = tmp_path / "attack.journal"
    whole = run(scores, path)
    path.write_bytes(path.read_bytes()[:-3])
    rest = Counting()
    same(run(rest, path), whole)
    assert rest.rows in whole.queries


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"seed": 4}, "its seed was 3, now it is 4"),
        ({"radius": 0.09}, r"its radius was 0\.08, now it is 0\.09"),
        ({"method": SignAveraging(delta=0.01)}, "its method was"),
        ({"max_queries": 121}, "its max_queries was 120"),
        ({"norm": "l2"}, "its norm was 'linf', now it is 'l2'"),
        ({"labels": None}, "its labels were others"),
        ({"targets": (LABELS + 1) % 3}, "its targets were others"),
    ],
)
def test_another_attack_is_refused_before_the_model_is_asked(tmp_path, change, sentence):
    path = tmp_path / "attack.journal"
    run(scores, path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=sentence):
        run(Counting(most=0), path, **change)
    assert path.read_bytes() == before


def test_other_images_and_other_files_are_refused(tmp_path):
    path = tmp_path / "attack.journal"
    run(scores, path)
    with pytest.raises(ValueError, match="its images were others"):
        attack(scores, IMAGES[::-1], LABELS, journal=path, **SETTINGS)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="is the journal of an attack and not of a run"):
        gs.minimize(abs, [1.0], max_evals=10, journal=path)
    assert path.read_bytes() == before
    other = tmp_path / "run.journal"
    gs.minimize(lambda x: float(abs(x[0])), [1.0], max_evals=10, rng=0, journal=other)
    before = other.read_bytes()
    with pytest.raises(ValueError, match="is not the journal of an attack"):
        run(scores, other)
    assert other.read_bytes() == before
    with pytest.raises(TypeError, match="journal must be a path, got int"):
        run(scores, 3)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        struct.pack("<I", 2**31),
        struct.pack("<I", 2) + b"{}",
        struct.pack("<I", 2) + b"[]" + bytes(8),
        struct.pack("<I", 12) + b'{"index": -1}',
        struct.pack("<I", 13) + b'{"index": 99}',
    ],
)
def test_a_record_that_no_attack_has_written_is_refused(tmp_path, content):
    """Its checksums are right."""
    path = tmp_path / "attack.journal"
    run(scores, path)
    path.write_bytes(path.read_bytes() + records.framed(IMAGE, content))
    with pytest.raises(ValueError, match=r"is not a journal that goldstein wrote: its record at byte \d+ is malformed"):
        run(scores, path)
    path.write_bytes(records.MAGIC + records.framed(0, b"[1]"))
    with pytest.raises(ValueError, match="is not the journal of an attack"):
        run(scores, path)
