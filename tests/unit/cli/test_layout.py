"""Results for people."""

import json

from hypothesis import given
from hypothesis import strategies as st

from phalanx.cli.layout import lay_out, printable, result_text


def test_each_key_has_a_line_when_it_fits() -> None:
    assert result_text({"n": 3, "who": {"a": [1, 2]}}, 80) == 'n: 3\nwho: {"a": [1, 2]}'


def test_what_is_too_wide_has_an_item_a_line() -> None:
    assert result_text({"who": {"a": "long" * 5, "b": [1]}}, 30) == (
        'who: {\n  "a": "longlonglonglonglong",\n  "b": [1]\n}'
    )


def test_a_text_of_several_lines_comes_last_and_verbatim() -> None:
    shown = result_text({"table": "a  b\n1  2\n", "n": 1, "one line": "x\n"}, 80)
    assert shown == 'n: 1\none line: "x\\n"\n\ntable:\na  b\n1  2'


def test_a_lone_text_is_shown_as_it_is() -> None:
    assert result_text("hello\nworld", 80) == "hello\nworld"


def test_a_result_that_is_no_dict_is_json() -> None:
    assert result_text([1, None], 80) == "[1, null]"


def test_nothing_in_a_value_can_steer_the_terminal() -> None:
    shown = result_text({"\x1b[31m": "\x1b]0;evil\x07", "text": "a\n\x1b[2Jb\x9b"}, 80)
    assert "\x1b" not in shown
    assert "\x9b" not in shown
    assert "a\n\\x1b[2Jb" in shown


def test_tabs_and_line_breaks_stay() -> None:
    assert printable("a\tb\nc\rd") == "a\tb\nc\\x0dd"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text("abc äß\"'\\", max_size=5),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab", max_size=3), inner, max_size=4),
    ),
    st.integers(1, 60),
)
def test_whatever_the_width_it_is_the_same_json(value: object, width: int) -> None:
    assert json.loads(lay_out(value, width)) == value  # type: ignore[arg-type]
