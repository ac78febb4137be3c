"""What is tried again when nothing else is said: the same errors as in the installed ``langgraph``."""

# pyright: reportMissingTypeStubs=false

from collections.abc import Callable
from typing import Final, cast

import pytest
from langgraph.types import RetryPolicy
from tests.retry_cases import CASES, OURS, shown

from phalanx.types import default_retry_on

THEIRS: Final = cast("Callable[[Exception], bool]", RetryPolicy().retry_on)


@pytest.mark.parametrize(("error", "again"), CASES, ids=shown)
def test_the_same_errors_are_tried_again(error: Exception, again: bool) -> None:
    assert default_retry_on(error) is again
    assert THEIRS(error) is again


@pytest.mark.parametrize(("error", "again"), OURS, ids=shown)
def test_a_request_that_a_server_refuses_is_not_tried_again_as_it_is_there(error: Exception, again: bool) -> None:
    assert default_retry_on(error) is again
    assert THEIRS(error) is not again
