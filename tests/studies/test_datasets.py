"""Data sets: what is in the real ones, and how their files are read."""

import bz2
import gzip
import hashlib
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from studies import datasets

ROOT = Path(__file__).parents[2]
TEXT = b"+1 1:0.5 3:-2\n-1 2:1e-3\n-1\n+1 4:7"
MATRIX = [[0.5, 0, -2, 0], [0, 1e-3, 0, 0], [0, 0, 0, 0], [0, 0, 0, 7]]
SIGNS = [1, -1, -1, 1]

# name: rows, features, rows of the label +1, entries that are not zero
LIBSVM = {
    "a9a": (48_842, 123, 11_687, 677_323),
    "w8a": (64_700, 300, 1_933, 753_862),
    "covtype": (581_012, 54, 283_301, 6_940_438),
    "ijcnn1": (49_990, 22, 4_853, 649_870),
    "mushrooms": (8_124, 112, 4_208, 170_604),
    "phishing": (11_055, 68, 6_157, 331_650),
}


def real_folder():
    """Return the folder with the real files, if this machine has it."""
    named = os.environ.get("GOLDSTEIN_DATA")
    folder = Path(named) if named else ROOT.parent / "shared" / "data"
    return folder if (folder / "libsvm").is_dir() else None


REAL = real_folder()
needs_real_data = pytest.mark.skipif(
    REAL is None, reason="the real files are not here: set GOLDSTEIN_DATA to a folder with libsvm, mnist, fashion-mnist"
)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache of the test's own, and no folder named."""
    monkeypatch.delenv("GOLDSTEIN_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "platform", "linux")
    return tmp_path / "cache" / "goldstein"


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory):
    """One cache for all tests on the real files, which take seconds to parse."""
    return tmp_path_factory.mktemp("parsed")


def file_of(name, content, base="https://127.0.0.1:9/"):
    sha256 = hashlib.sha256(content).hexdigest()
    return datasets.File(name, base + name, sha256, len(content), len(packed(name, content)))


def packed(name, content):
    return {".bz2": bz2.compress, ".gz": gzip.compress}.get(Path(name).suffix, bytes)(content)


def check_toy(features, labels):
    assert isinstance(features, sparse.csr_array)
    assert features.toarray().tolist() == MATRIX
    assert labels.tolist() == SIGNS


# The real files


@needs_real_data
@pytest.mark.parametrize("name", LIBSVM)
def test_the_six_sets_have_the_sizes_and_labels_they_should(name, shared_cache, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared_cache))
    rows, width, positive, entries = LIBSVM[name]
    features, labels = datasets.load(name, REAL)
    assert features.shape == (rows, width)
    assert features.nnz == entries
    assert features.has_canonical_format
    assert np.unique(labels).tolist() == [-1, 1]
    assert (labels == 1).sum() == positive
    assert np.abs(features.data).max() <= 1
    again, _ = datasets.load(name, REAL / "libsvm")
    assert (again != features).nnz == 0


@needs_real_data
def test_our_parser_reads_a_real_file_as_scikit_learn_does(shared_cache, monkeypatch):
    sklearn = pytest.importorskip("sklearn.datasets")
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared_cache))
    theirs, raw = sklearn.load_svmlight_file(str(REAL / "libsvm" / "phishing"), n_features=68)
    features, labels = datasets.load("phishing", REAL)
    assert (features != sparse.csr_array(theirs)).nnz == 0
    assert (labels == 2 * raw - 1).all()


@needs_real_data
@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
@pytest.mark.parametrize(("split", "count"), [("train", 60_000), ("test", 10_000)])
def test_the_image_sets_have_the_sizes_and_labels_they_should(name, split, count):
    images, labels = datasets.load_images(name, split, REAL)
    assert images.shape == (count, 28, 28)
    assert images.dtype == labels.dtype == np.uint8
    assert labels.shape == (count,)
    assert np.unique(labels).tolist() == list(range(10))
    assert images.min() == 0
    assert images.max() == 255
    assert images.flags.writeable


def test_the_table_of_sources_agrees_with_what_is_documented():
    assert {name: (s.rows, s.features) for name, s in datasets.SOURCES.items() if s.folder == "libsvm"} == {
        name: numbers[:2] for name, numbers in LIBSVM.items()
    }
    for source in datasets.SOURCES.values():
        assert all(re.fullmatch(r"[0-9a-f]{64}", file.sha256) for file in source.files)
        assert all(file.url.startswith("https://") for file in source.files)
        assert all(file.url.endswith("/" + file.name) for file in source.files)


@needs_real_data
@pytest.mark.parametrize("name", datasets.SOURCES)
def test_the_known_sizes_are_those_of_the_real_files(name):
    source = datasets.SOURCES[name]
    for file in source.files:
        path = datasets.local_path(file, source, REAL)
        assert len(datasets.verify(path, file)) == file.size
        slack = 2_000 if file.name == "ijcnn1.bz2" else 0  # its archive was packed anew
        assert 0 <= file.packed - path.stat().st_size <= slack


# Reading


@pytest.mark.parametrize("ending", [b"", b"\n"], ids=["cut", "ended"])
@pytest.mark.parametrize("line", [b"\n", b"\r\n"], ids=["unix", "windows"])
def test_lines_of_label_and_entries_become_a_sparse_matrix(ending, line):
    matrix, labels = datasets._svmlight((TEXT + ending).replace(b"\n", line), 4)
    check_toy(matrix, labels)
    wider, _ = datasets._svmlight(TEXT, 9)
    assert wider.shape == (4, 9)


def test_random_matrices_are_read_as_scikit_learn_reads_them(tmp_path):
    sklearn = pytest.importorskip("sklearn.datasets")
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((200, 30)) * (rng.random((200, 30)) < 0.2)
    sklearn.dump_svmlight_file(dense, rng.choice([1, 2], 200), str(tmp_path / "x"), zero_based=False)
    theirs, raw = sklearn.load_svmlight_file(str(tmp_path / "x"), n_features=30)
    ours, labels = datasets._svmlight((tmp_path / "x").read_bytes(), 30)
    assert (ours != sparse.csr_array(theirs)).nnz == 0
    assert (labels == raw).all()


@pytest.mark.parametrize(
    "text",
    [b"+1 1:2 3\n", b"+1 1:x\n", b"spam and eggs\n", b"+1 0:1\n", b"+1 5:1\n", b"+1 1:1 # note\n", b"1 1:2\n\n1 1:2\n"],
)
def test_text_in_another_form_is_refused_in_one_sentence(text):
    with pytest.raises(ValueError, match=r"not in LIBSVM's format: .* from 1 to 4\.$"):
        datasets._svmlight(text, 4)


@pytest.mark.parametrize("labels", [(b"1", b"2"), (b"0", b"1"), (b"-1", b"+1"), (b"3.5", b"7")])
def test_the_smaller_label_becomes_minus_one_over_all_files_of_a_set(labels, tmp_path, monkeypatch):
    low, high = labels
    parts = {"one": high + b" 1:1\n" + high + b" 2:1\n", "one.t": low + b" 1:5\n"}  # one label in each part
    for name, text in parts.items():
        (tmp_path / name).write_bytes(text)
    files = tuple(file_of(name, text) for name, text in parts.items())
    monkeypatch.setitem(datasets.SOURCES, "two", datasets.Source(files, 3, 3, "libsvm"))
    features, signs = datasets.load("two", tmp_path)
    assert signs.tolist() == [1, 1, -1]
    assert features.toarray().tolist() == [[1, 0, 0], [0, 1, 0], [5, 0, 0]]


def idx(magic, shape, body):
    return b"".join(int(number).to_bytes(4) for number in (magic, *shape)) + bytes(list(body))


def test_idx_files_hold_their_shape():
    images = datasets._idx_array(idx(2051, (2, 3, 4), range(24)), 3)
    assert images.tolist() == np.arange(24).reshape(2, 3, 4).tolist()
    assert datasets._idx_array(idx(2049, (5,), [9, 8, 7, 6, 5]), 1).tolist() == [9, 8, 7, 6, 5]


@pytest.mark.parametrize(
    ("content", "dimensions", "sentence"),
    [
        (b"", 3, "it has only 0 bytes"),
        (idx(2051, (2, 3), ()), 3, "it has only 12 bytes"),
        (idx(2049, (2, 3, 4), range(24)), 3, "its magic number is 2049"),
        (idx(2051, (2, 3, 4), range(24)), 1, "its magic number is 2051"),
        (idx(2051, (2, 3, 4), range(23)), 3, r"announces \[2, 3, 4\] bytes but holds 23"),
        (idx(2049, (2,), range(3)), 1, r"announces \[2\] bytes but holds 3"),
    ],
)
def test_idx_files_that_are_none_are_refused_in_one_sentence(content, dimensions, sentence):
    with pytest.raises(ValueError, match=sentence + r".*\.$"):
        datasets._idx_array(content, dimensions)


def test_images_come_from_their_two_files_of_the_split(tmp_path, monkeypatch):
    contents = {
        "train-images-idx3-ubyte.gz": idx(2051, (2, 28, 28), np.arange(2 * 784) % 256),
        "train-labels-idx1-ubyte.gz": idx(2049, (2,), [3, 4]),
        "t10k-images-idx3-ubyte.gz": idx(2051, (1, 28, 28), np.full(784, 7)),
        "t10k-labels-idx1-ubyte.gz": idx(2049, (1,), [5]),
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(gzip.compress(content))
    files = tuple(file_of(name, content) for name, content in contents.items())
    monkeypatch.setitem(datasets.SOURCES, "mnist", datasets.Source(files, 3, 784, "mnist"))
    assert datasets.load_images("mnist", "train", tmp_path)[1].tolist() == [3, 4]
    images, labels = datasets.load_images("mnist", "test", tmp_path)
    assert labels.tolist() == [5]
    assert (images == 7).all()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: datasets.load("a8a"), "Unknown data set 'a8a'; known are a9a, w8a"),
        (lambda: datasets.fetch("a8a"), "Unknown data set 'a8a'"),
        (lambda: datasets.load("mnist"), "mnist holds images; use load_images"),
        (lambda: datasets.load_images("a9a"), "a9a holds no images; use load"),
        (lambda: datasets.load_images("mnist", "validation"), "split must be train or test, got 'validation'"),
    ],
)
def test_wrong_names_get_one_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence + r".*\.$"):
        call()
