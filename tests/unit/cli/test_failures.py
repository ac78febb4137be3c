"""What a command says when a run has failed."""

import pytest

from phalanx.cli.exits import ExitCode
from phalanx.cli.failures import describe, exit_code, headline
from phalanx.errors import (
    ClusterUnreachableError,
    EmptyInputError,
    GraphNotNamedError,
    GraphNotRegisteredError,
    RemoteNodeError,
    RemoteTraceback,
)
from phalanx.worker.task_context import note_task

REMOTE = """Traceback (most recent call last):
  File "/opt/app/lib/python3.11/site-packages/phalanx/worker/run_task.py", line 90, in run_task
    value = await call(node.actions[0], value)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/graphs/mine.py", line 7, in review
    return {"x": helper(state)}
                 ^^^^^^^^^^^^^
  File "/srv/graphs/mine.py", line 3, in helper
    raise ValueError("no good")
ValueError: no good
"""


def caught(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as raised:
        return raised


def failed_in_a_node(error: BaseException) -> BaseException:
    return note_task(caught(error), "review", "task-1")


def test_an_error_of_a_node_names_it_and_shows_the_users_own_frames() -> None:
    text = describe(failed_in_a_node(ValueError("no good")), "article", full=False)
    assert text.startswith("node 'review' of graph 'article' failed: ValueError: no good\n")
    assert "test_failures.py:" in text
    assert "raise error" in text
    assert "task-1" not in text


def test_the_frames_of_a_worker_are_shown_without_ours() -> None:
    error = note_task(ValueError("no good"), "review", "task-1")
    error.__cause__ = RemoteTraceback(REMOTE)
    assert describe(error, "article", full=False).splitlines()[1:-1] == [
        "  /srv/graphs/mine.py:7 in review",
        '      return {"x": helper(state)}',
        "  /srv/graphs/mine.py:3 in helper",
        '      raise ValueError("no good")',
    ]


def test_everything_is_shown_when_asked_for() -> None:
    error = note_task(caught(ValueError("no good")), "review", "task-1")
    error.__cause__ = RemoteTraceback(REMOTE)
    text = describe(error, "article", full=True)
    assert "site-packages/phalanx/worker/run_task.py" in text
    assert text.endswith("node 'review' of graph 'article' failed: ValueError: no good")


def test_causes_notes_and_members_are_shown() -> None:
    error = failed_in_a_node(ExceptionGroup("two", [ValueError("a"), KeyError("b")]))
    error.__cause__ = OSError("disk")
    error.add_note("3 more tasks failed")
    text = describe(error, "g", full=False)
    for part in ("- ValueError: a", "- KeyError: 'b'", "caused by OSError: disk", "note: 3 more tasks failed"):
        assert part in text


def test_an_error_of_ours_speaks_for_itself() -> None:
    error = caught(GraphNotRegisteredError("census", ["other"], "vm:1"))
    assert describe(error, "census", full=False) == str(error)


def test_an_error_whose_class_is_elsewhere_keeps_its_name() -> None:
    assert headline(RemoteNodeError("their.Error", "text")) == "their.Error: text"


def test_a_message_cannot_steer_the_terminal() -> None:
    assert "\x1b" not in describe(failed_in_a_node(ValueError("\x1b[2J")), "g", full=False)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ClusterUnreachableError("broker", "redis://h", "refused"), ExitCode.UNREACHABLE),
        (note_task(ClusterUnreachableError("broker", "redis://h", "refused"), "n", "t"), ExitCode.FAILED),
        (EmptyInputError("nothing"), ExitCode.USAGE),
        (GraphNotNamedError("no name"), ExitCode.USAGE),
        (ValueError("x"), ExitCode.FAILED),
    ],
)
def test_exit_codes(error: BaseException, code: ExitCode) -> None:
    assert exit_code(error) is code
