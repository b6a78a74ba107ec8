"""Public data sets: downloaded once, verified, cached; or read from a folder of your own.

`load` gives the six LIBSVM sets of the paper's first experiment, `load_images` MNIST and Fashion-MNIST. A file is
taken from the folder given, or else from the folder that the environment variable GOLDSTEIN_DATA names; without
either, from the user's cache, where it is downloaded to once, over https. Its content, decompressed, must have the
known SHA-256. Parsed data are kept in the cache in a form that loads at once.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import sys
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from goldstein.oracle import Array
from studies.download import ChecksumError, DownloadError, File, Progress, download, verify

__all__ = ["SOURCES", "ChecksumError", "DownloadError", "File", "Source", "cache_folder", "fetch"]
__all__ += ["load", "load_images", "local_path", "verify"]

LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"
MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
FASHION = "https://fashion-mnist.s3.eu-central-1.amazonaws.com/"


@dataclass(frozen=True)
class Source:
    """A data set: its files, and how many rows and features they hold together."""

    files: tuple[File, ...]
    rows: int
    features: int
    folder: str


def _libsvm(rows: int, features: int, *files: File) -> Source:
    return Source(files, rows, features, "libsvm")


def _text(name: str, size: int, sha256: str, packed: int | None = None) -> File:
    return File(name, LIBSVM + name, sha256, size, size if packed is None else packed)


def _idx(base: str, folder: str, *archives: tuple[int, str]) -> Source:
    """Return a set of four files, given by the bytes of each archive and the hash of its content."""
    sizes = {
        "train-images-idx3-ubyte.gz": 16 + 60_000 * 784,
        "train-labels-idx1-ubyte.gz": 8 + 60_000,
        "t10k-images-idx3-ubyte.gz": 16 + 10_000 * 784,
        "t10k-labels-idx1-ubyte.gz": 8 + 10_000,
    }
    files = tuple(
        File(name, base + name, sha256, size, packed)
        for (name, size), (packed, sha256) in zip(sizes.items(), archives, strict=True)
    )
    return Source(files, 70_000, 784, folder)


SOURCES = {
    "a9a": _libsvm(48_842, 123,
        _text("a9a", 2_329_875, "f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906"),
        _text("a9a.t", 1_164_628, "1f448a153f0320399a7e40836eb207655b0bde0f21fc941cc472193daa9f5de9"),
    ),
    "w8a": _libsvm(64_700, 300,
        _text("w8a", 3_478_238, "6a9fa8fd5f524303240a5db07d4b3d4a51e8b7b4b20a914105d8e3e8c81640f2"),
        _text("w8a.t", 1_045_870, "618929ecb01bebb841daec4cae4aa07b97832d29b08652452775598929547fde"),
    ),
    "covtype": _libsvm(581_012, 54,
        _text("covtype.libsvm.binary.scale.bz2", 71_183_474,
              "859809c092ca933e1a8cc1cfa15e33b56cb11651e4e0a5b52b702abc315a6c0f", packed=8_216_081),
    ),
    "ijcnn1": _libsvm(49_990, 22,  # its text is known, its archive only to be about as long
        _text("ijcnn1.bz2", 7_744_897,
              "16506cad788cf7c9607454150ed1994788204bac2ff4c9cb3b320036b6950d3f", packed=1_400_000),
    ),
    "mushrooms": _libsvm(8_124, 112,
        _text("mushrooms", 879_712, "f39a4eb628dc61a7d43760815b061c9e497aa728ce1ad8bde57a09ef6043b538"),
    ),
    "phishing": _libsvm(11_055, 68,
        _text("phishing", 3_620_168, "0cf66ef36604c393da9359b2e5d894a2df8aee31fd184633cefa138add2ef08a"),
    ),
    "mnist": _idx(MNIST, "mnist",
        (9_912_422, "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
        (28_881, "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
        (1_648_877, "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
        (4_542, "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
    ),
    "fashion-mnist": _idx(FASHION, "fashion-mnist",
        (26_421_880, "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"),
        (29_515, "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"),
        (4_422_102, "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"),
        (5_148, "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"),
    ),
}  # fmt: skip

PathLike = str | os.PathLike[str]


def load(name: str, folder: PathLike | None = None) -> tuple[sparse.csr_array, Array]:
    """Return one of the six LIBSVM sets as features (CSR) and labels −1 and +1.

    Parameters
    ----------
    name : {"a9a", "w8a", "covtype", "ijcnn1", "mushrooms", "phishing"}
        a9a and w8a are their training and test files together, covtype is the scaled file: the sizes of the paper
        (mushrooms has 8,124 rows; the paper's 8,142 is a slip). The smaller of the two labels in a file becomes −1.
    folder : path, optional
        Where the files are; None: GOLDSTEIN_DATA, else the user's cache, downloading what is missing.

    Returns
    -------
    features : scipy.sparse.csr_array, shape (n, d)
    labels : ndarray, shape (n,)
    """
    source = _source(name)
    if source.folder != "libsvm":
        raise ValueError(f"{name} holds images; use load_images.")

    def parse(contents: list[bytes]) -> dict[str, npt.NDArray[Any]]:
        parts = [_svmlight(content, source.features) for content in contents]
        both = sparse.vstack([matrix for matrix, _ in parts], format="csr")
        raw = np.concatenate([labels for _, labels in parts])
        signs = np.where(raw == raw.min(), -1.0, 1.0)
        return {"data": both.data, "indices": both.indices, "indptr": both.indptr, "labels": signs}

    arrays = _cached(source, parse, folder)
    features = sparse.csr_array(
        (arrays["data"], arrays["indices"], arrays["indptr"]), shape=(source.rows, source.features)
    )
    return features, arrays["labels"]


def load_images(
    name: str, split: str = "train", folder: PathLike | None = None
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Return MNIST or Fashion-MNIST as images (n, 28, 28) of bytes and labels 0..9.

    Parameters
    ----------
    name : {"mnist", "fashion-mnist"}
    split : {"train", "test"}
    folder : path, optional
        As in `load`.
    """
    source = _source(name)
    if source.folder == "libsvm":
        raise ValueError(f"{name} holds no images; use load.")
    if split not in ("train", "test"):
        raise ValueError(f"split must be train or test, got {split!r}.")
    images, labels = source.files[:2] if split == "train" else source.files[2:]
    return _idx_array(_whole(images, source, folder)[1], 3), _idx_array(_whole(labels, source, folder)[1], 1)


def fetch(name: str, folder: PathLike | None = None, progress: Progress | None = None) -> list[Path]:
    """Make sure that the files of a data set are at hand and whole; return their paths.

    Parameters
    ----------
    name : str
        Of the data set, as in `load`.
    folder : path, optional
        Where the files are looked for first, as in `load`.
    progress : callable, optional
        Told how far a download is.
    """
    source = _source(name)
    return [_whole(file, source, folder, progress)[0] for file in source.files]


def cache_folder() -> Path:
    """Return the folder of the user's cache; it is made when something is written."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "goldstein"


def local_path(file: File, source: Source, folder: PathLike | None = None) -> Path | None:
    """Return where a file is on this machine, without downloading; None when it is not in the cache.

    A folder that is named, by the argument or by GOLDSTEIN_DATA, must hold the file, itself or in its subfolder.
    """
    named = _named(folder)
    if named is not None:
        for place in (named, named / source.folder):
            if (place / file.name).is_file():
                return place / file.name
        whose = "" if folder is not None else ", which GOLDSTEIN_DATA names,"
        raise FileNotFoundError(f"{file.name} is neither in {named}{whose} nor in its subfolder {source.folder}.")
    path = cache_folder() / source.folder / file.name
    return path if path.is_file() else None


def _source(name: str) -> Source:
    if name not in SOURCES:
        raise ValueError(f"Unknown data set {name!r}; known are {', '.join(SOURCES)}.")
    return SOURCES[name]


def _named(folder: PathLike | None) -> Path | None:
    """Return the folder that the argument or GOLDSTEIN_DATA names."""
    named = folder if folder is not None else os.environ.get("GOLDSTEIN_DATA") or None
    return None if named is None else Path(named).expanduser()


def _whole(file: File, source: Source, folder: PathLike | None, progress: Progress | None = None) -> tuple[Path, bytes]:
    """Return where a file is and what it holds, verified; the cache gets what it lacks or holds wrong."""
    path = local_path(file, source, folder)
    if path is not None:
        try:
            return path, verify(path, file)
        except ChecksumError:
            if _named(folder) is not None:
                raise
    path = cache_folder() / source.folder / file.name
    return path, download(file, path, progress)


def _cached(
    source: Source, parse: Callable[[list[bytes]], dict[str, npt.NDArray[Any]]], folder: PathLike | None
) -> dict[str, npt.NDArray[Any]]:
    """Return parsed arrays from the cache, or parse and keep them there; the key is what the files must hold.

    Beside them are the size and the time of each file that was found right; one that has changed is verified again.
    """
    key = hashlib.sha256("".join(file.sha256 for file in source.files).encode()).hexdigest()[:16]
    path = cache_folder() / "parsed" / f"{source.files[0].name}-{key}.npz"
    stamps = path.with_suffix(".json")
    arrays, right, now = _parsed(path), _stored(stamps), _stamps(source, folder)
    if arrays is not None and now.items() <= right.items():
        return arrays
    if arrays is None:
        arrays = parse([_whole(file, source, folder)[1] for file in source.files])
        _keep(path, lambda out: np.savez(out, allow_pickle=False, **arrays))
    else:
        for file in source.files:
            if local_path(file, source, folder) is not None:
                _whole(file, source, folder)
    right |= _stamps(source, folder) | now  # as it was before it was read, if it was there
    _keep(stamps, lambda out: out.write(json.dumps(right).encode()))
    return arrays


def _stamps(source: Source, folder: PathLike | None) -> dict[str, list[int]]:
    """Return size and time of change of the files that are here, by their paths."""
    paths = [path for file in source.files if (path := local_path(file, source, folder)) is not None]
    return {str(path.resolve()): [path.stat().st_size, path.stat().st_mtime_ns] for path in paths}


def _stored(path: Path) -> dict[str, list[int]]:
    """Return the stamps that were kept; none if they are damaged."""
    try:
        stamps = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return stamps if isinstance(stamps, dict) else {}


def _parsed(path: Path) -> dict[str, npt.NDArray[Any]] | None:
    """Return the arrays that were kept; None if there are none, or if they are damaged."""
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as saved:
            return {name: saved[name] for name in saved.files}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
        return None


def _keep(path: Path, write: Callable[[Any], Any]) -> None:
    """Write a file of the cache in one go; a cache that cannot be written to is done without."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as out:
                write(out)
            os.replace(name, path)
        finally:
            Path(name).unlink(missing_ok=True)


def _svmlight(text: bytes, features: int) -> tuple[sparse.csr_array, Array]:
    """Parse `label index:value …` lines; indices count from 1."""
    raw = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(raw == ord("\n"))
    if raw.size and raw[-1] != ord("\n"):
        ends = np.append(ends, raw.size)
    indptr = np.concatenate([[0], np.searchsorted(np.flatnonzero(raw == ord(":")), ends)])
    wrong = ValueError(f"The file is not in LIBSVM's format: label index:value … with indices from 1 to {features}.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # numpy's word for text that is no number
            numbers = np.fromstring(text.replace(b":", b" ").decode("ascii"), sep=" ")
    except (DeprecationWarning, ValueError):
        raise wrong from None
    if numbers.size != ends.size + 2 * indptr[-1]:
        raise wrong
    labels_at = np.arange(ends.size) + 2 * indptr[:-1]
    rest = np.delete(numbers, labels_at).reshape(-1, 2)
    indices = rest[:, 0].astype(np.int32) - 1
    if ((indices < 0) | (indices >= features)).any():
        raise wrong
    shape = (ends.size, features)
    return sparse.csr_array((rest[:, 1].copy(), indices, indptr.astype(np.int32)), shape=shape), numbers[labels_at]


def _idx_array(content: bytes, dimensions: int) -> npt.NDArray[np.uint8]:
    """Read an IDX file of unsigned bytes."""
    start = 4 * (1 + dimensions)
    if len(content) < start:
        raise ValueError(f"Not an IDX file of {dimensions} dimensions: it has only {len(content)} bytes.")
    magic, *shape = (int(number) for number in np.frombuffer(content[:start], ">u4"))
    if magic != 0x0800 + dimensions:
        raise ValueError(f"Not an IDX file of {dimensions} dimensions: its magic number is {magic}.")
    if len(content) - start != math.prod(shape):
        raise ValueError(f"The IDX file announces {shape} bytes but holds {len(content) - start}.")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy()
