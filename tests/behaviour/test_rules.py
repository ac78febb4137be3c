"""The table of rules and the tests agree."""

from tests.behaviour.rules import cell, rules_in_table, rules_in_tests


def test_every_rule_of_the_table_has_a_test_and_every_marked_rule_is_in_the_table() -> None:
    assert set(rules_in_table()) == set(rules_in_tests())


def test_the_table_names_the_tests_of_each_rule() -> None:
    table = rules_in_table()
    wrong = {number: cell(tests) for number, tests in rules_in_tests().items() if table.get(number) != tests}

    assert not wrong, "these rows of RULES.md should end so:\n" + "\n".join(f"{key}: {wrong[key]}" for key in wrong)


def test_no_rule_is_numbered_twice_and_the_numbers_of_a_theme_have_no_gap() -> None:
    numbers = list(rules_in_table())
    themes = {number.rpartition("-")[0] for number in numbers}

    for theme in themes:
        mine = sorted(int(number.rpartition("-")[2]) for number in numbers if number.rpartition("-")[0] == theme)
        assert mine == list(range(1, len(mine) + 1)), theme
