"""Reading the input of a run."""

import io
from pathlib import Path

import pytest

from phalanx.cli.exits import CommandError, ExitCode
from phalanx.cli.given import check_keys, read_input


def complaint(given: str, stdin: str = "") -> str:
    with pytest.raises(CommandError) as raised:
        read_input(given, io.StringIO(stdin))
    assert raised.value.code is ExitCode.USAGE
    return str(raised.value)


def test_json_on_the_command_line() -> None:
    assert read_input('{"n": [1, null]}') == {"n": [1, None]}


def test_json_from_standard_input() -> None:
    assert read_input("-", io.StringIO('{"n": 1}\n')) == {"n": 1}


def test_json_from_a_file_with_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "input.json"
    file.write_bytes(b'\xef\xbb\xbf{"n": "\xc3\xa4"}')
    assert read_input(f"@{file}") == {"n": "ä"}


def test_broken_json_is_shown_where_it_breaks() -> None:
    text = complaint('{"a": 1,\n "b": }')
    assert "--input is not JSON: Expecting value at line 2, column 7" in text
    assert text.endswith(f'     "b": }}\n    {" " * 6}^')


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("{'n': 1}", "JSON has double quotes"),
        ("{n: 1}", "did the shell take the quotes away?"),
        ("", 'is empty; give a JSON object of state keys, such as {"n": 1}'),
        ("[" * 100_000, "nested too deep"),
        ("9" * 10_000, "cannot be read"),
        ("@no/such.json", "there is no such file"),
        ("@/", "cannot be read"),
    ],
)
def test_wrong_input_comes_with_advice(given: str, hint: str) -> None:
    assert hint in complaint(given)


def test_a_file_given_without_its_sign_is_recognized(tmp_path: Path) -> None:
    file = tmp_path / "input.json"
    file.write_text("{}")
    assert f"--input @{file} reads it" in complaint(str(file))


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    file = tmp_path / "input.json"
    file.write_bytes(b"\xff\xfe\x00")
    assert "not UTF-8" in complaint(f"@{file}")


def test_broken_standard_input_is_named() -> None:
    assert "standard input is not JSON" in complaint("-", "nonsense")


@pytest.mark.parametrize("given", [{}, {"n": 1}, None])
def test_an_object_of_known_keys_passes_and_so_does_null(given: object) -> None:
    check_keys(given, ["n"])


def test_a_state_that_is_one_value_may_be_anything() -> None:
    check_keys([1], None)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ([1], "this is a list"),
        ("a", "this is a string"),
        (True, "this is true or false"),
        (1, "this is a number"),
        ({"chnuk": 1}, "no key 'chnuk'; did you mean 'chunk'?"),
        ({"other": 1}, "no key 'other'; it takes: root, chunk"),
    ],
)
def test_an_input_that_the_graph_would_not_read_is_refused(given: object, text: str) -> None:
    with pytest.raises(CommandError, match="input") as raised:
        check_keys(given, ["root", "chunk"])
    assert text in str(raised.value)
