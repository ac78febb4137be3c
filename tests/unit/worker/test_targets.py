"""Naming a graph on a command line: what works, and what is said when it does not."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from phalanx.worker.targets import TargetError, load_target


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working directory; the import system is as before afterwards."""
    monkeypatch.chdir(tmp_path)
    before, path = dict(sys.modules), list(sys.path)
    yield tmp_path
    sys.path[:] = path
    for name in sys.modules.keys() - before.keys():
        del sys.modules[name]
    sys.modules.update(before)


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


# --- what works -------------------------------------------------------------------------------------------------------


def test_a_file_in_another_folder_is_loaded_under_its_own_name_once(folder: Path) -> None:
    write(folder / "deep" / "target_a.py", "value = object()\nname = __name__\n")

    assert load_target("deep/target_a.py:name") == "target_a"
    assert load_target("deep/target_a.py:value") is load_target(f"{folder}/deep/target_a.py:value")


def test_a_file_finds_what_is_beside_it(folder: Path) -> None:
    write(folder / "deep" / "target_beside.py", "value = 5")
    write(folder / "deep" / "target_b.py", "from target_beside import value\n")

    assert load_target("deep/target_b.py:value") == 5


def test_a_module_is_found_from_the_working_directory(folder: Path) -> None:
    write(folder / "target_package" / "inner.py", "value = 7\n")

    assert load_target("target_package.inner:value") == 7


def test_an_attribute_may_be_inside_another(folder: Path) -> None:
    write(folder / "target_c.py", "class Space:\n    class Inner:\n        value = 9\n")

    assert load_target("target_c:Space.Inner.value") == 9
    assert load_target("target_c.py:Space.Inner.value") == 9


def test_a_file_that_was_imported_as_a_module_before_is_not_loaded_twice(folder: Path) -> None:
    write(folder / "target_d.py", "value = object()\n")

    assert load_target("target_d:value") is load_target("target_d.py:value")


def test_a_path_may_hold_a_colon_and_spaces(folder: Path) -> None:
    write(folder / "a: b" / "target_e.py", "value = 1\n")

    assert load_target("a: b/target_e.py:value") == 1


# --- what does not ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "target",
    ["", ":", "graph", "pkg.module", "file.py", ":graph", "pkg.module:", "./file.py:", ".pkg:graph", "..:graph"],
)
def test_what_is_not_a_target_is_told_the_two_forms(target: str) -> None:
    with pytest.raises(TargetError) as caught:
        load_target(target)

    assert str(caught.value) == f"{target!r} is not a target; write pkg.module:attribute or path/file.py:attribute"
    assert isinstance(caught.value, ValueError)


def test_a_file_that_is_not_there_is_named_with_where_it_was_looked_for(folder: Path) -> None:
    with pytest.raises(TargetError, match=f"there is no file nothing.py .looked in {folder}"):
        load_target("nothing.py:graph")
    with pytest.raises(TargetError, match="there is no file deep"):
        load_target("deep/:graph")


def test_a_folder_is_no_file(folder: Path) -> None:
    (folder / "folder.py").mkdir()

    with pytest.raises(TargetError, match=r"there is no file folder\.py"):
        load_target("folder.py:graph")


def test_a_file_that_is_not_python_is_refused(folder: Path) -> None:
    write(folder / "deep" / "notes.txt", "x")

    with pytest.raises(TargetError, match="is not a Python file"):
        load_target("deep/notes.txt:graph")


@pytest.mark.parametrize(
    ("target", "missing"),
    [
        ("target_nowhere:graph", "target_nowhere"),
        ("target_nowhere.inner:graph", "target_nowhere"),
        ("json.nowhere:graph", "json.nowhere"),
        ("a:b:graph", "a:b"),
        ("with space:graph", "with space"),
        ("json..decoder:graph", "json."),
    ],
)
def test_a_module_that_is_not_there_is_named(target: str, missing: str) -> None:
    with pytest.raises(TargetError, match="there is no module") as caught:
        load_target(target)

    assert repr(missing) in str(caught.value)


def test_a_module_that_lacks_what_it_imports_is_not_called_missing(folder: Path) -> None:
    write(folder / "target_f.py", "import target_not_installed\n")

    for target in ("target_f:graph", "target_f.py:graph"):
        with pytest.raises(ModuleNotFoundError, match="target_not_installed") as caught:
            load_target(target)
        assert not isinstance(caught.value, TargetError)


def test_an_attribute_that_is_not_there_is_named_with_those_like_it(folder: Path) -> None:
    write(folder / "target_g.py", "class Space:\n    value = 1\n\ngraph = Space\n")

    with pytest.raises(TargetError, match="target_g has no attribute 'grahp'; did you mean 'graph'"):
        load_target("target_g:grahp")
    with pytest.raises(TargetError, match="has no attribute 'valeu'; did you mean 'value'"):
        load_target("target_g.py:graph.valeu")
    with pytest.raises(TargetError, match="has no attribute ''"):
        load_target("target_g:graph.")


def test_an_error_in_a_file_comes_out_as_it_is_and_leaves_no_half_loaded_module(folder: Path) -> None:
    file = write(folder / "target_h.py", "value = 1\nraise RuntimeError('mine')\n")

    with pytest.raises(RuntimeError, match="mine"):
        load_target("target_h.py:value")

    assert "target_h" not in sys.modules
    write(file, "value = 2  # repaired\n")
    assert load_target("target_h.py:value") == 2


def test_a_file_that_fails_gives_its_name_back_to_the_module_that_had_it(folder: Path) -> None:
    import colorsys

    write(folder / "colorsys.py", "raise RuntimeError('mine')\n")

    with pytest.raises(RuntimeError, match="mine"):
        load_target("colorsys.py:value")

    assert sys.modules["colorsys"] is colorsys
