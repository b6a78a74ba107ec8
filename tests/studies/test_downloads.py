"""Downloads, folders and caches: what happens when a file, a server or the network is not as it should be."""

import contextlib
import dataclasses
import http.client
import http.server
import re
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from studies import datasets
from tests.studies.test_datasets import TEXT, cache, check_toy, file_of, idx, packed

__all__ = ["cache"]  # a fixture


class Unencrypted(http.client.HTTPConnection):
    """What stands in for https on this machine: an https address without a certificate."""

    def __init__(self, host, *, context=None, check_hostname=None, **settings):
        super().__init__(host, **settings)


class Server:
    """A server on this machine: it can break off, refuse ranges or give something else; it keeps what it was asked."""

    def __init__(self):
        self.files, self.asked = {}, []
        self.ranges, self.break_after, self.lengths, self.shift = True, None, True, 0
        self.said = {}  # headers in place of the right ones
        self.leads_to = {}  # redirects
        self.sent = 0
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                server.answer(self)

            def log_message(self, *args):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"https://127.0.0.1:{self.http.server_address[1]}/"

    def answer(self, handler):
        body, wanted = self.files.get(handler.path[1:]), handler.headers.get("Range")
        self.asked.append(wanted)
        if handler.path[1:] in self.leads_to:
            handler.send_response(302)
            handler.send_header("Location", self.leads_to[handler.path[1:]])
            handler.end_headers()
            self.send(handler, body or b"")
            return
        if body is None:
            handler.send_error(404)
            return
        start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1]) if wanted and self.ranges else 0
        if start:
            start = max(0, start + self.shift)
        if wanted and self.ranges and start >= len(body):
            handler.send_error(416)
            return
        handler.send_response(206 if wanted and self.ranges else 200)
        for name, value in self.said.items():
            handler.send_header(name, value)
        if self.lengths:
            handler.send_header("Content-Length", str(len(body) - start))
            if wanted and self.ranges:
                handler.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        handler.end_headers()
        self.send(handler, body[start : None if self.break_after is None else start + self.break_after])

    def send(self, handler, body):
        """Write a body until nobody listens any more, counting its bytes."""
        with contextlib.suppress(ConnectionError):
            for start in range(0, len(body), 1 << 16):
                handler.wfile.write(body[start : start + (1 << 16)])
                self.sent += len(body[start : start + (1 << 16)])


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(http.client, "HTTPSConnection", Unencrypted)
    it = Server()
    thread = threading.Thread(target=it.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield it
    it.http.shutdown()
    thread.join()
    it.http.server_close()


@pytest.fixture(params=["toy", "toy.bz2"])
def toy(request, server, monkeypatch):
    """A small set that the server has, plain and compressed."""
    name = request.param
    server.files[name] = packed(name, TEXT)
    source = datasets.Source((file_of(name, TEXT, server.url),), 4, 4, "libsvm")
    monkeypatch.setitem(datasets.SOURCES, "toy", source)
    return name


def test_a_set_is_downloaded_once_and_then_found_in_the_cache(toy, server, cache):
    seen = []
    (path,) = datasets.fetch("toy", progress=lambda *news: seen.append(news))
    assert path == cache / "libsvm" / toy
    assert path.read_bytes() == server.files[toy]
    assert seen == [(toy, len(server.files[toy]), len(server.files[toy]))]
    check_toy(*datasets.load("toy"))
    check_toy(*datasets.load("toy"))
    assert server.asked == [None]
    assert not list(cache.rglob("*.part"))


def test_a_broken_download_goes_on_where_it_ended(toy, server, cache):
    server.break_after = 10
    with pytest.raises(datasets.DownloadError, match=r"the connection broke after 10 of \d+ bytes"):
        datasets.load("toy")
    assert (cache / "libsvm" / f"{toy}.part").read_bytes() == server.files[toy][:10]
    assert not (cache / "libsvm" / toy).exists()
    server.break_after = None
    seen = []
    datasets.fetch("toy", progress=lambda *news: seen.append(news))
    assert server.asked == [None, "bytes=10-"]
    assert seen[-1] == (toy, len(server.files[toy]), len(server.files[toy]))
    check_toy(*datasets.load("toy"))
    assert not list(cache.rglob("*.part"))


def test_a_download_that_broke_before_the_first_byte_is_tried_again(toy, server):
    server.break_after = 0
    with pytest.raises(datasets.DownloadError, match="the connection broke after 0 of"):
        datasets.load("toy")
    server.break_after = None
    check_toy(*datasets.load("toy"))
    assert server.asked == [None, None]


def test_a_part_that_is_already_whole_is_taken_as_it_is(toy, server, cache):
    (cache / "libsvm").mkdir(parents=True)
    (cache / "libsvm" / f"{toy}.part").write_bytes(server.files[toy])
    check_toy(*datasets.load("toy"))
    assert server.asked == [f"bytes={len(server.files[toy])}-"]


def test_a_server_that_gives_no_ranges_starts_again(toy, server, cache):
    server.ranges = False
    (cache / "libsvm").mkdir(parents=True)
    (cache / "libsvm" / f"{toy}.part").write_bytes(b"what came before")
    check_toy(*datasets.load("toy"))
    assert server.asked == ["bytes=16-"]
    assert (cache / "libsvm" / toy).read_bytes() == server.files[toy]


@pytest.mark.parametrize("shift", [-1000, -3, 3])
def test_a_server_that_begins_elsewhere_than_asked_is_noticed(toy, server, cache, shift):
    server.break_after = 10
    with pytest.raises(datasets.DownloadError):
        datasets.load("toy")
    server.break_after, server.shift = None, shift
    check_toy(*datasets.load("toy"))
    assert server.asked == [None, "bytes=10-"] + ([None] if shift > 0 else [])  # a gap can only be filled from zero


@pytest.mark.parametrize("lengths", [True, False])
def test_a_part_of_something_else_is_thrown_away_and_the_download_starts_again(toy, server, cache, lengths):
    (cache / "libsvm").mkdir(parents=True)
    (cache / "libsvm" / f"{toy}.part").write_bytes(b"z" * 10)
    server.lengths = lengths
    check_toy(*datasets.load("toy"))
    assert server.asked[-1] is None
    assert not list(cache.rglob("*.part"))


def test_a_connection_cut_without_a_known_length_keeps_what_came(toy, server, cache):
    server.break_after, server.lengths = 10, False
    for size in (10, 20):
        with pytest.raises(datasets.DownloadError, match=f"it ended after {size} bytes, too early.*What came is kept"):
            datasets.load("toy")
        assert (cache / "libsvm" / f"{toy}.part").read_bytes() == server.files[toy][:size]
    server.break_after = None
    check_toy(*datasets.load("toy"))
    assert server.asked == [None, "bytes=10-", "bytes=20-"]


@pytest.mark.parametrize("how", ["load", "fetch"])
def test_a_wrong_file_in_the_cache_is_downloaded_again(toy, server, cache, how):
    (path,) = datasets.fetch("toy")
    path.write_bytes(b"garbage")
    datasets.fetch("toy") if how == "fetch" else check_toy(*datasets.load("toy"))
    assert path.read_bytes() == server.files[toy]
    assert server.asked == [None, None]


@pytest.mark.parametrize("what", ["another", "truncated"])
def test_a_wrong_file_from_the_server_is_not_kept(toy, server, cache, what):
    right = server.files[toy]
    server.files[toy] = packed(toy, TEXT + b"\n") if what == "another" else right[:-4]
    with pytest.raises(datasets.ChecksumError, match=f"{re.escape(server.url + toy)} gave another file than it should"):
        datasets.load("toy")
    assert [path.name for path in cache.rglob("*") if path.is_file()] == [".lock"]
    server.files[toy] = right
    check_toy(*datasets.load("toy"))


def test_a_file_that_the_server_does_not_have_is_a_download_error(toy, server):
    server.files.clear()
    with pytest.raises(datasets.DownloadError, match=r"404.*name it by GOLDSTEIN_DATA"):
        datasets.load("toy")


def test_no_network_is_a_download_error_that_says_what_to_do(monkeypatch):
    with contextlib.closing(http.server.HTTPServer(("127.0.0.1", 0), None).socket) as free:
        port = free.getsockname()[1]
    source = datasets.Source((file_of("toy", TEXT, f"https://127.0.0.1:{port}/"),), 4, 4, "libsvm")
    monkeypatch.setitem(datasets.SOURCES, "toy", source)
    with pytest.raises(datasets.DownloadError, match=r"could not be downloaded.*without a network, put the file into"):
        datasets.load("toy")


def test_two_processes_that_want_the_same_file_download_it_once(toy, server, cache):
    source = datasets.SOURCES["toy"].files[0]
    program = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        "import http.client; from tests.studies import test_downloads as t\n"
        "http.client.HTTPSConnection = t.Unencrypted\n"
        "from studies import datasets as d; from studies.datasets import File\n"
        f"d.SOURCES['toy'] = d.Source(({source!r},), 4, 4, 'libsvm')\n"
        "print(d.load('toy')[0].nnz)"
    )
    runs = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [run.communicate()[0].strip() for run in runs] == ["4", "4"]
    assert server.asked == [None]


# Sizes


FAR_TOO_LONG = 1 << 26


def files_in(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file() and path.name != ".lock")


@pytest.mark.parametrize("length", ["as it is", "unknown", "no number", "of the right file, in chunks"])
def test_a_download_ends_as_soon_as_it_is_longer_than_the_file(toy, server, cache, length):
    right = server.files[toy]
    server.files[toy] = right + bytes(FAR_TOO_LONG)
    server.lengths = length == "as it is"
    if length == "no number":
        server.said = {"Content-Length": "9" * 5_000}
    if length == "of the right file, in chunks":
        server.said = {"Content-Length": str(len(right)), "Transfer-Encoding": "chunked"}
        head = f"{len(server.files[toy]):x}\r\n".encode()
        server.files[toy] = head + server.files[toy] + b"\r\n0\r\n\r\n"
    seen = []
    with pytest.raises(datasets.ChecksumError) as failure:
        datasets.fetch("toy", progress=lambda *news: seen.append(news[1]))
    assert str(failure.value) == (
        f"{server.url}{toy} gave another file than it should, which was not kept: "
        f"it is longer than the expected {len(right)} bytes."
    )
    assert max(seen, default=0) <= len(right) + 1
    assert server.sent < FAR_TOO_LONG
    assert server.asked == [None]
    assert files_in(cache) == []


@pytest.mark.parametrize("length", ["99999999999999999999", "-1", "many"])
def test_a_length_that_is_none_does_not_keep_a_right_file_away(toy, server, length):
    server.lengths, server.said = False, {"Content-Length": length}
    check_toy(*datasets.load("toy"))


@pytest.mark.parametrize("ranges", [True, False])
def test_a_part_longer_than_the_file_is_thrown_away_and_the_download_starts_again(toy, server, cache, ranges):
    server.ranges = ranges
    (cache / "libsvm").mkdir(parents=True)
    (cache / "libsvm" / f"{toy}.part").write_bytes(server.files[toy] + b"more")
    check_toy(*datasets.load("toy"))
    assert files_in(cache / "libsvm") == [toy]


def test_a_server_that_adds_too_much_to_a_part_is_stopped(toy, server, cache):
    right = server.files[toy]
    (cache / "libsvm").mkdir(parents=True)
    (cache / "libsvm" / f"{toy}.part").write_bytes(right[:10])
    server.files[toy], server.lengths = right + bytes(FAR_TOO_LONG), False
    with pytest.raises(datasets.ChecksumError, match=f"it is longer than the expected {len(right)} bytes"):
        datasets.load("toy")
    assert server.asked == ["bytes=10-", None]
    assert server.sent < FAR_TOO_LONG
    assert files_in(cache) == []


@pytest.mark.parametrize("name", ["toy.bz2", "toy.gz"])
@pytest.mark.parametrize("where", ["a folder", "a server", "a server that tells no length"])
def test_an_archive_is_unpacked_no_further_than_its_content_should_be_long(
    name, where, server, tmp_path, cache, monkeypatch
):
    right = file_of(name, TEXT, server.url)
    server.files[name] = packed(name, bytes(FAR_TOO_LONG))
    server.lengths = where == "a server"
    file = dataclasses.replace(right, packed=len(server.files[name]) + 1)
    monkeypatch.setitem(datasets.SOURCES, "toy", datasets.Source((file,), 4, 4, "libsvm"))
    (tmp_path / name).write_bytes(server.files[name])
    folder = tmp_path if where == "a folder" else None
    tracemalloc.start()
    with pytest.raises(datasets.ChecksumError, match=f"holds more than the expected {len(TEXT)} bytes\\.$"):
        datasets.load("toy", folder)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < FAR_TOO_LONG / 4
    assert files_in(cache) == []
    assert (tmp_path / name).exists()


@pytest.mark.parametrize("name", ["toy", "toy.bz2", "toy.gz"])
def test_content_of_the_right_length_is_read_to_its_end_and_verified(name, tmp_path):
    content = TEXT * 50_000  # more than one block
    (tmp_path / name).write_bytes(packed(name, content))
    assert datasets.verify(tmp_path / name, file_of(name, content)) == content
    other = content[:-1] + b"8"
    (tmp_path / name).write_bytes(packed(name, other))
    with pytest.raises(datasets.ChecksumError, match="its content has SHA-256"):
        datasets.verify(tmp_path / name, file_of(name, content))


@pytest.mark.parametrize("why", ["not there", "broken at once", "not https"])
def test_a_download_that_brought_nothing_leaves_nothing(toy, server, cache, why, monkeypatch):
    if why == "not there":
        server.files.clear()
    elif why == "broken at once":
        server.break_after = 0
    else:
        source = datasets.Source((file_of(toy, TEXT, server.url.replace("https", "http")),), 4, 4, "libsvm")
        monkeypatch.setitem(datasets.SOURCES, "toy", source)
    with pytest.raises(datasets.DownloadError):
        datasets.load("toy")
    assert files_in(cache) == []


# Addresses


@pytest.mark.parametrize("scheme", ["http", "HTTP", "ftp", "file"])
def test_only_https_is_asked(scheme, server, toy, monkeypatch):
    source = datasets.Source((file_of(toy, TEXT, server.url.replace("https", scheme)),), 4, 4, "libsvm")
    monkeypatch.setitem(datasets.SOURCES, "toy", source)
    with pytest.raises(datasets.DownloadError, match=f"{scheme}://.* is no https address"):
        datasets.load("toy")
    assert server.asked == []


@pytest.mark.parametrize("scheme", ["https", "http", "ftp"])
def test_a_redirect_is_followed_to_https_only(scheme, server, toy):
    server.files["elsewhere"] = server.files.pop(toy)
    server.leads_to[toy] = server.url.replace("https", scheme) + "elsewhere"
    if scheme == "https":
        check_toy(*datasets.load("toy"))
        return
    with pytest.raises(datasets.DownloadError, match=f"{scheme}://.*elsewhere is no https address"):
        datasets.load("toy")
    assert len(server.asked) == 1


def test_the_body_of_a_redirect_is_not_read(server, toy):
    server.files["elsewhere"] = server.files[toy]
    server.files[toy] = bytes(FAR_TOO_LONG)
    server.leads_to[toy] = server.url + "elsewhere"
    check_toy(*datasets.load("toy"))
    assert server.sent < FAR_TOO_LONG


@pytest.fixture
def pictures(server, monkeypatch):
    """A small set of images that the server has, in four files."""
    contents = {
        "train-images-idx3-ubyte.gz": idx(2051, (3, 28, 28), np.arange(3 * 784) % 251),
        "train-labels-idx1-ubyte.gz": idx(2049, (3,), [3, 1, 4]),
        "t10k-images-idx3-ubyte.gz": idx(2051, (1, 28, 28), np.full(784, 7)),
        "t10k-labels-idx1-ubyte.gz": idx(2049, (1,), [5]),
    }
    server.files.update({name: packed(name, content) for name, content in contents.items()})
    files = tuple(file_of(name, content, server.url) for name, content in contents.items())
    monkeypatch.setitem(datasets.SOURCES, "mnist", datasets.Source(files, 4, 784, "mnist"))
    return list(contents)


def test_images_are_downloaded_once_and_a_broken_download_goes_on(pictures, server, cache):
    server.break_after = 40
    with pytest.raises(datasets.DownloadError, match="the connection broke after 40 of"):
        datasets.load_images("mnist", "train")
    server.break_after = None
    for _ in range(2):
        images, labels = datasets.load_images("mnist", "train")
        assert images.ravel().tolist() == (np.arange(3 * 784) % 251).tolist()
        assert labels.tolist() == [3, 1, 4]
    assert server.asked == [None, "bytes=40-", None]  # the files of the other split were not asked for
    assert sorted(path.name for path in datasets.fetch("mnist")) == sorted(pictures)
    assert len(server.asked) == 5
    assert not list(cache.rglob("*.part"))


@pytest.mark.parametrize("kind", ["images", "labels"])
def test_images_that_are_not_the_right_ones_are_refused(pictures, server, tmp_path, kind):
    for name in pictures:
        (tmp_path / name).write_bytes(server.files[name])
    (wrong,) = (name for name in pictures if name.startswith(f"train-{kind}"))
    (tmp_path / wrong).write_bytes(packed(wrong, idx(2051, (3, 28, 28), np.zeros(3 * 784, int))))
    with pytest.raises(datasets.ChecksumError, match=f"{wrong} is not the file it should be"):
        datasets.load_images("mnist", "train", tmp_path)
    assert datasets.load_images("mnist", "test", tmp_path)[1].tolist() == [5]
    (tmp_path / wrong).unlink()
    with pytest.raises(FileNotFoundError, match=f"{wrong} is neither in {tmp_path} nor in its subfolder mnist"):
        datasets.load_images("mnist", "train", tmp_path)
    assert server.asked == []


# Folders and caches


@pytest.mark.parametrize("where", ["the folder itself", "its subfolder"])
@pytest.mark.parametrize("by", ["argument", "GOLDSTEIN_DATA"])
def test_a_folder_of_ones_own_is_read_and_left_alone(toy, server, tmp_path, monkeypatch, where, by):
    folder = tmp_path / "mine"
    place = folder if where == "the folder itself" else folder / "libsvm"
    place.mkdir(parents=True)
    (place / toy).write_bytes(server.files[toy])
    if by == "GOLDSTEIN_DATA":
        monkeypatch.setenv("GOLDSTEIN_DATA", str(folder))
    argument = folder if by == "argument" else None
    check_toy(*datasets.load("toy", argument))
    assert datasets.fetch("toy", argument) == [place / toy]
    assert server.asked == []
    assert [path for path in folder.rglob("*") if path.is_file()] == [place / toy]


def test_a_tilde_is_the_home_folder(toy, server, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / toy).write_bytes(server.files[toy])
    check_toy(*datasets.load("toy", "~/mine"))
    monkeypatch.setenv("GOLDSTEIN_DATA", "~/mine")
    check_toy(*datasets.load("toy"))
    assert server.asked == []


def test_a_folder_is_enough_where_the_cache_cannot_be_written(toy, server, tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    (tmp_path / toy).write_bytes(server.files[toy])
    check_toy(*datasets.load("toy", tmp_path))
    with pytest.raises(OSError, match="file"):
        datasets.load("toy")


def test_a_file_that_a_named_folder_lacks_is_not_downloaded_instead(toy, server, tmp_path, monkeypatch):
    datasets.load("toy")  # even if it is in the cache
    with pytest.raises(FileNotFoundError, match=rf"{re.escape(toy)} is neither in {tmp_path} nor in its subfolder"):
        datasets.load("toy", tmp_path)
    monkeypatch.setenv("GOLDSTEIN_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="which GOLDSTEIN_DATA names"):
        datasets.fetch("toy")
    monkeypatch.setenv("GOLDSTEIN_DATA", "")
    check_toy(*datasets.load("toy"))


def test_a_wrong_file_in_a_folder_is_told_apart_and_left_alone(toy, server, tmp_path):
    (tmp_path / toy).write_bytes(packed(toy, b"+1 1:1\n"))
    with pytest.raises(datasets.ChecksumError, match="is not the file it should be: its content has SHA-256"):
        datasets.load("toy", tmp_path)
    assert (tmp_path / toy).exists()


def test_a_file_that_changed_is_noticed_although_its_data_were_parsed(toy, server, tmp_path, monkeypatch):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / toy).write_bytes(server.files[toy])
        check_toy(*datasets.load("toy", tmp_path / folder))
    (tmp_path / "b" / toy).write_bytes(packed(toy, b"+1 1:1\n"))
    for _ in range(2):
        with pytest.raises(datasets.ChecksumError, match="is not the file it should be"):
            datasets.load("toy", tmp_path / "b")
    (tmp_path / "b" / toy).write_bytes(server.files[toy])
    check_toy(*datasets.load("toy", tmp_path / "b"))
    monkeypatch.setattr(datasets, "verify", lambda *_: pytest.fail("it was read again"))
    for folder in ("a", "b"):
        check_toy(*datasets.load("toy", tmp_path / folder))


@pytest.mark.parametrize("content", [b"", b"[1]", b"{", b"\xff"])
def test_damaged_notes_on_verified_files_are_written_again(toy, cache, content):
    datasets.load("toy")
    (notes,) = (cache / "parsed").glob("*.json")
    right = notes.read_bytes()
    notes.write_bytes(content)
    check_toy(*datasets.load("toy"))
    assert notes.read_bytes() == right


@pytest.mark.parametrize("name", ["toy.bz2", "toy.gz"])
@pytest.mark.parametrize("how", ["cut", "changed", "not compressed"])
def test_a_damaged_archive_is_a_checksum_error(name, how, tmp_path, monkeypatch):
    body = bytearray(packed(name, TEXT * 50))
    if how == "cut":
        del body[-9:]
    elif how == "changed":
        body[len(body) // 2] ^= 255
    else:
        body = TEXT
    (tmp_path / name).write_bytes(body)
    source = datasets.Source((file_of(name, TEXT * 50),), 200, 4, "libsvm")
    monkeypatch.setitem(datasets.SOURCES, "toy", source)
    with pytest.raises(datasets.ChecksumError, match=r"is damaged .*delete it and fetch it again"):
        datasets.load("toy", tmp_path)


def test_what_was_parsed_is_used_the_second_time(toy, cache, monkeypatch):
    datasets.load("toy")
    monkeypatch.setattr(datasets, "_svmlight", lambda *_: pytest.fail("it was parsed again"))
    check_toy(*datasets.load("toy"))


@pytest.mark.parametrize("how", ["cut", "changed", "text", "empty", "pickled"])
def test_what_was_parsed_is_built_again_when_it_is_damaged(toy, cache, how):
    datasets.load("toy")
    (parsed,) = (cache / "parsed").glob("*.npz")
    whole = parsed.read_bytes()
    changed = bytearray(whole)
    changed[whole.index(b"labels.npy") + 140] ^= 255
    pickled = cache / "pickled.npz"
    np.savez(pickled, data=np.array([None]))
    parsed.write_bytes(
        {"cut": whole[:-50], "changed": changed, "text": b"spam", "empty": b"", "pickled": pickled.read_bytes()}[how]
    )
    check_toy(*datasets.load("toy"))
    assert sorted((cache / "parsed").iterdir()) == [parsed.with_suffix(".json"), parsed]
    assert parsed.stat().st_size == len(whole)


@pytest.mark.parametrize(
    ("platform", "variable", "value", "folder"),
    [
        ("linux", "XDG_CACHE_HOME", "here", "here/goldstein"),
        ("linux", "XDG_CACHE_HOME", "", "home/.cache/goldstein"),
        ("darwin", "XDG_CACHE_HOME", "here", "home/Library/Caches/goldstein"),
        ("win32", "LOCALAPPDATA", "here", "here/goldstein"),
        ("win32", "LOCALAPPDATA", "", "home/AppData/Local/goldstein"),
    ],
)
def test_the_cache_is_where_the_system_keeps_caches(platform, variable, value, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    monkeypatch.setenv(variable, str(tmp_path / value) if value else "")
    assert datasets.cache_folder() == tmp_path / folder
    assert not (tmp_path / folder).exists()  # before there is something to write
