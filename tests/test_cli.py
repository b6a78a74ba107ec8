"""The command line: what it prints and with which code it ends."""

import json
import sys

import pytest

import goldstein as gs

pytest.importorskip("typer")

from typer.testing import CliRunner

from goldstein import cli, datasets
from goldstein.cli.app import app
from test_datasets import TEXT, cache, file_of, packed
from test_downloads import server

__all__ = ["cache", "server"]  # fixtures


def run(*arguments):
    answer = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})
    if answer.exception is not None and not isinstance(answer.exception, SystemExit):
        raise answer.exception
    return answer.exit_code, " ".join(answer.output.split())


@pytest.fixture
def sets(server, monkeypatch):
    """Two sets that the server has."""
    names = ("one", "two.bz2")
    for name in names:
        server.files[name] = packed(name, TEXT)
    sources = {name[:3]: datasets.Source((file_of(name, TEXT, server.url),), 4_000, 4, "libsvm") for name in names}
    monkeypatch.setattr(datasets, "SOURCES", sources)
    return sources


def test_list_shows_sizes_and_what_is_here(sets, cache, tmp_path):
    code, said = run("data", "list")
    assert code == 0
    assert "one │ 4,000 │ 4 │ one │ 0 of 1 │" in said
    datasets.fetch("two")
    assert "two.bz2 │ 1 of 1 in" in run("data", "list")[1]
    assert run("data", "list", "--data", tmp_path)[1].count("0 of 1") == 2


def test_fetch_downloads_what_is_missing_and_says_where_it_is(sets, cache, server):
    code, said = run("data", "fetch", "two")
    assert code == 0
    assert f"two: whole, in {cache / 'libsvm'}" in said
    assert (cache / "libsvm" / "two.bz2").is_file()
    assert run("data", "fetch")[0] == 0
    assert server.asked == [None, None]


def test_fetch_goes_on_with_the_others_and_ends_with_an_error_code(sets, server):
    del server.files["one"]
    code, said = run("data", "fetch")
    assert code == 1
    assert "one could not be downloaded" in said
    assert "two: whole, in" in said


def test_verify_tells_right_wrong_and_missing_apart_and_downloads_nothing(sets, tmp_path, server):
    (tmp_path / "one").write_bytes(TEXT)
    (tmp_path / "two.bz2").write_bytes(packed("two.bz2", TEXT + b"\n"))
    code, said = run("data", "verify", "--data", tmp_path)
    assert code == 1
    assert "one: right" in said
    assert "is not the file it should be" in said
    assert run("data", "verify", "one", "--data", tmp_path)[0] == 0
    code, said = run("data", "verify", "one")
    assert code == 1
    assert "one: not here: one; goldstein data fetch one gets it." in said
    assert server.asked == []


def test_verify_leaves_out_sets_that_are_not_here_unless_they_are_named(sets, tmp_path):
    (tmp_path / "one").write_bytes(TEXT)
    code, said = run("data", "verify", "--data", tmp_path)
    assert code == 0
    assert said == "one: right not here, so not verified: two"
    code, said = run("data", "verify", "two", "--data", tmp_path)
    assert code == 1
    assert f"two: two.bz2 is neither in {tmp_path} nor in its subfolder libsvm." in said
    code, said = run("data", "verify")
    assert code == 1  # nothing was verified
    assert said == "not here, so not verified: one, two"


def test_verify_leaves_a_wrong_file_in_the_cache_alone(sets, cache, server):
    (path,) = datasets.fetch("one")
    path.write_bytes(b"garbage")
    code, said = run("data", "verify", "one")
    assert code == 1
    assert "is not the file it should be" in said
    assert path.read_bytes() == b"garbage"
    assert server.asked == [None]


def test_the_image_sets_are_listed_fetched_and_verified_like_the_others(server, cache, monkeypatch):
    names = [file.name for file in datasets.SOURCES["mnist"].files]
    server.files.update({name: packed(name, TEXT) for name in names})
    files = tuple(file_of(name, TEXT, server.url) for name in names)
    monkeypatch.setattr(datasets, "SOURCES", {"mnist": datasets.Source(files, 70_000, 784, "mnist")})
    assert "mnist │ 70,000 │ 784 │ train and test, IDX │ 0 of 4 │" in run("data", "list")[1]
    assert run("data", "verify", "mnist")[0] == 1
    code, said = run("data", "fetch", "mnist")
    assert code == 0
    assert f"mnist: whole, in {cache / 'mnist'}" in said
    assert "4 of 4 in" in run("data", "list")[1]
    assert run("data", "verify", "mnist") == (0, "mnist: right")


def test_unknown_names_are_refused(sets):
    for verb in ("fetch", "verify"):
        code, said = run("data", verb, "three")
        assert code == 2
        assert "Unknown data set 'three'; known are one, two." in said


def test_plan_without_a_method_compares_them_all():
    goal = {"d": 10, "L": 1, "gap": 1, "delta": 0.5, "epsilon": 0.3}
    code, said = run("plan", *(word for name, value in goal.items() for word in (f"--{name}", value)))
    assert code == 0
    assert said.split() == str(gs.theory.compare(**goal)).split()
    assert "cheapest from values" in said


def test_printed_parameters_need_a_method():
    code, said = run(
        "plan", "--d", 5, "--L", 1, "--gap", 1, "--delta", 0.3, "--epsilon", 0.5, "--parameters", "printed"
    )
    assert code == 2
    assert "--parameters printed is for one method" in " ".join(said.split())


def test_plan_prints_what_the_theorem_gives():
    code, said = run("plan", "gfm", "--d", 5, "--L", 1, "--gap", 1, "--delta", 0.3, "--epsilon", 0.5)
    assert code == 0
    assert "gfm" in said
    code, said = run("plan", "gfm", "--d", 5, "--L", 1, "--delta", 0.3, "--epsilon", 0.5)
    assert code == 2
    assert "gap" in said


def test_the_demo_leaves_numbers_and_a_figure(tmp_path):
    for needed in ("numba", "sklearn", "matplotlib"):
        pytest.importorskip(needed)
    code, said = run("demo", "--out", tmp_path, "--max-evals", 2000, "--seeds", 2)
    assert code == 0
    assert "GFM+" in said
    assert (tmp_path / "demo.png").stat().st_size > 1000
    assert len(json.loads((tmp_path / "demo.json").read_text())["rows"]) == 5


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_the_extra_the_command_says_which(missing, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == "The command line needs typer and rich: pip install 'goldstein[cli]'.\n"


def test_a_demo_prescribes_only_what_it_needs_and_is_not_there(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    said = "goldstein demo needs sklearn: pip install 'goldstein[sklearn]'."
    assert run("demo", "--out", tmp_path) == (2, said)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    said = "goldstein demo-attack needs sklearn and matplotlib: pip install 'goldstein[sklearn,plot]'."
    assert run("demo-attack", "--out", tmp_path) == (2, said)
