"""The command line: what it prints and with which code it ends."""

import json
import sys

import pytest

import goldstein as gs

pytest.importorskip("typer")

from typer.testing import CliRunner

from goldstein import cli
from goldstein.cli.app import app
from studies import datasets
from test_datasets import TEXT, cache, file_of, packed
from test_downloads import server

__all__ = ["cache", "server"]  # fixtures


def run(*arguments, columns=200):
    answer = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": str(columns)})
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


def test_fetch_downloads_into_the_folder_that_is_named(sets, cache, server, tmp_path):
    folder = tmp_path / "mine"
    code, said = run("data", "fetch", "two", "--data", folder)
    assert code == 0
    assert f"two: whole, in {folder / 'libsvm'}" in said
    assert not (cache / "libsvm" / "two.bz2").exists()
    assert run("data", "fetch", "two", "--data", folder)[0] == 0
    assert server.asked == [None]
    (folder / "libsvm" / "two.bz2").write_bytes(b"mine")
    code, said = run("data", "fetch", "two", "--data", folder)
    assert code == 1
    assert (folder / "libsvm" / "two.bz2").read_bytes() == b"mine"
    del server.files["one"]
    assert "put the file into a folder and name it by --data or GOLDSTEIN_DATA" in run("data", "fetch", "one")[1]


def test_paths_are_no_markup(sets, tmp_path):
    folder = tmp_path / "[red]"
    folder.mkdir()
    (folder / "one").write_bytes(TEXT)
    assert "[red]" in run("data", "list", "--data", folder, columns=400)[1]


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


GOAL = ["--d", "10", "--L", "1", "--gap", "1", "--delta", "0.5", "--epsilon", "0.3"]


def test_plans_fit_a_narrow_terminal():
    answer = CliRunner().invoke(app, ["plan", *GOAL], env={"COLUMNS": "80"})
    assert answer.exit_code == 0
    lines = answer.output.splitlines()
    assert max(map(len, lines)) <= 80
    comparison = gs.theory.compare(d=10, L=1, gap=1, delta=0.5, epsilon=0.3)
    for row in comparison:
        (line,) = [line for line in lines if line.startswith(f"{row.method} ") and row.cost in line]
        assert f"{line[-1]}: {row.guarantee}" in lines
    assert f"cheapest: {comparison.rows[0].method}" in lines
    printed = ["plan", "gfm+", *GOAL, "--parameters", "printed"]
    assert max(map(len, CliRunner().invoke(app, printed, env={"COLUMNS": "200"}).output.splitlines())) > 80
    answer = CliRunner().invoke(app, printed, env={"COLUMNS": "80"})
    assert answer.exit_code == 0
    assert max(map(len, answer.output.splitlines())) <= 80


def test_plans_are_printed_as_json():
    told = json.loads(run("plan", *GOAL, "--json")[1])
    rows = list(gs.theory.compare(d=10, L=1, gap=1, delta=0.5, epsilon=0.3))
    assert [row["method"] for row in told["rows"]] == [row.method for row in rows]
    assert [row["evaluations"] for row in told["rows"]] == [row.plan.evaluations for row in rows]
    told = json.loads(run("plan", "gfm", *GOAL, "--json")[1])
    plan = gs.theory.plan("gfm", d=10, L=1, gap=1, delta=0.5, epsilon=0.3)
    assert (told["iterations"], told["parameters"]["step_size"]) == (plan.iterations, plan.parameters["step_size"])


def test_h_is_help():
    for words in ([], ["data"], ["minimize"], ["data", "fetch"]):
        assert run(*words, "-h") == run(*words, "--help")


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


def test_the_tables_of_the_demo_fit_eighty_columns(capsys):
    from rich.console import Console

    from goldstein.demo import svm

    pair = [0.1234, 0.0123]
    row = {"loss": dict.fromkeys(map("{:g}".format, svm.SHOWN_AT), pair), "final": pair, "accuracy": 0.98}
    rows = [{"method": name, "squared_norm": 0.01, "squared_norm_interval": [0.0, 0.02], **row} for name in svm.METHODS]
    for columns, wide in ((80, False), (svm.WIDE, True)):
        for table in svm._tables(rows, 200_000, wide=wide):
            Console(width=columns).print(table)
        said = capsys.readouterr().out
        assert "…" not in said
        assert max(map(len, said.splitlines())) <= columns
        assert said.count("WS-GFM+") == (1 if wide else 2)
        for words in ("0.1234 ± 0.0123", "98.0%", "0.100 [0.000, 0.141]", "answer after", "200,000"):
            assert words in said


@pytest.mark.parametrize("name", ["demo", "demo-attack"])
def test_a_demo_looks_for_room_before_it_runs(name, tmp_path, monkeypatch):
    monkeypatch.setattr("goldstein.cli.app.check_installed", lambda *_: None)
    for module in ("svm", "attack"):
        pytest.importorskip("sklearn")
        monkeypatch.setattr(f"goldstein.demo.{module}.run", lambda *_, **__: pytest.fail("it runs"))
    (tmp_path / "file").touch()
    for out in (tmp_path / "file", tmp_path / "file" / "deeper"):
        code, said = run(name, "--out", out)
        assert code == 2
        assert said == f"There is no room for the folder {out}: {tmp_path / 'file'} is a file."


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
