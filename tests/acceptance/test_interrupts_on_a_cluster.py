"""Questions asked in worker processes, and answered by other processes, at another time."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.graphs import asking
from tests.acceptance.serving import Graph, Serving, config_of, new_folder, new_thread
from tests.support import wait_until

from phalanx.checkpoint.memory import InMemorySaver
from phalanx.errors import ThreadBusyError
from phalanx.types import Command, Interrupt, StateSnapshot


@pytest.fixture(scope="module")
def serving() -> Iterator[Serving]:
    """Two worker processes, of one slot each."""
    with Serving.of(asking) as started:
        yield started


def noted(folder: Path) -> Counter[str]:
    """What ran, and how often."""
    return Counter(path.name.split("-")[0] for path in folder.iterdir() if "-" in path.name)


def ids(asked: dict[str, Any]) -> dict[str, str]:
    """The ids of questions, by what is asked."""
    questions: list[Interrupt] = asked["__interrupt__"]
    return {question.value: question.id for question in questions}


BOTH = (asking.three_deep, asking.in_function)


def test_questions_outlive_those_who_asked_them(serving: Serving, tmp_path: Path) -> None:
    """Some processes ask, all workers are replaced, and other processes answer."""
    threads = {graph: new_thread() for graph in BOTH}
    folders = {graph: new_folder(tmp_path) for graph in BOTH}
    for graph in BOTH:
        asked = serving.call(graph, threads[graph], input={"folder": str(folders[graph])})
        assert [*asked["asked"].values()] == ["name?"]
    serving.stop_workers()
    serving.start_worker()

    for graph in BOTH:
        answered = serving.call(graph, threads[graph], resume="Ann")
        assert answered["asked"] == {}
        assert answered["result"]["log"] == ["first", "before", "answer: Ann", "after", "last"]
        calls = {"calls": 2} if graph is asking.in_function else {}
        assert noted(folders[graph]) == {"first": 1, "before": 1, "asks": 2, "after": 1, "last": 1, **calls}
        serving.cluster.saver.delete_thread(threads[graph])
        assert serving.keys(threads[graph]) == []


def test_several_questions_are_answered_one_by_one_and_together(serving: Serving, tmp_path: Path) -> None:
    thread = new_thread()
    known = ids(serving.run(asking.several, {"folder": str(tmp_path)}, thread))
    assert sorted(known) == ["first?", "name?"]  # two ask for a name
    state = asking.several.with_cluster(serving.cluster).get_state(config_of(thread), subgraphs=True)
    names = [each.id for each in state.interrupts if each.value == "name?"]
    assert len(names) == 2

    one = serving.run(asking.several, Command[str](resume={names[0]: "Ann", known["first?"]: "1"}), thread)
    assert sorted(ids(one)) == ["name?", "second?"]
    result = serving.run(asking.several, Command[str](resume={names[1]: "Bob", ids(one)["second?"]: "2"}), thread)

    assert "__interrupt__" not in result
    assert sorted(each for each in result["log"] if "answer" in each) == [
        "answer: Ann",
        "answer: Bob",
        "answers: 1, 2",
    ]
    ran = noted(tmp_path)
    assert (ran["plan"], ran["quiet"], ran["end"], ran["before"], ran["after"]) == (1, 1, 1, 2, 2)


def test_a_checkpoint_can_be_answered_twice_and_differently(serving: Serving, tmp_path: Path) -> None:
    graph, thread = asking.three_deep.with_cluster(serving.cluster), new_thread()
    graph.invoke({"folder": str(tmp_path)}, config_of(thread))
    at = graph.get_state(config_of(thread)).config

    for answer in ("Ann", "Bob"):
        result = graph.invoke(Command[str](resume=answer), at)
        assert result["log"] == ["first", "before", f"answer: {answer}", "after", "last"]
    assert noted(tmp_path)["first"] == 1
    assert graph.get_state(config_of(thread)).values["log"][2] == "answer: Bob"
    serving.cluster.saver.delete_thread(thread)
    assert serving.keys(thread) == []


# --- as inline --------------------------------------------------------------------------------------------------------


def shown(state: StateSnapshot) -> Any:
    """A state without what differs from run to run."""
    values = {key: value for key, value in state.values.items() if key != "folder"}
    metadata = state.metadata or {}
    inside = [each.state and each.state.next for each in state.tasks if isinstance(each.state, StateSnapshot)]
    return values, state.next, metadata.get("source"), metadata.get("step"), inside


def stopping(graph: Graph, folder: Path) -> list[Any]:
    """A graph with breakpoints, its own and those of a graph inside, from stop to stop."""
    config, states = config_of(new_thread()), list[Any]()
    given: Any = {"folder": str(folder)}
    while not states or states[-1][1]:
        graph.invoke(given, config)
        states.append(shown(graph.get_state(config, subgraphs=True)))
        given = None
    return states


def updating(graph: Graph, folder: Path) -> list[Any]:
    """A thread that is updated, goes on, goes back, and goes another way."""
    config, states = config_of(new_thread()), list[Any]()
    graph.invoke({"folder": str(folder)}, config, interrupt_before=["b"])
    graph.update_state(config, {"log": ["updated"]}, as_node="a")
    states.append(graph.invoke(None, config)["log"])
    past = [*graph.get_state_history(config)]
    before_c = next(each for each in past if each.next == ("c",))
    forked = graph.update_state(before_c.config, {"log": ["another way"]}, as_node="b")
    states.append(graph.invoke(None, forked)["log"])
    first = next(each for each in past if each.next == ("a",))
    states.append(graph.invoke(None, first.config)["log"])
    states += [shown(each) for each in graph.get_state_history(config)]
    return states


@pytest.mark.parametrize(
    ("graph", "tell"), [(asking.stopping, stopping), (asking.plain, updating)], ids=["breakpoints", "time travel"]
)
def test_it_is_as_inline(serving: Serving, graph: Graph, tell: Any, tmp_path: Path) -> None:
    inline = graph.with_config({})
    inline.checkpointer = InMemorySaver()
    expected = tell(inline, new_folder(tmp_path))

    assert len(expected) > 3
    assert tell(graph.with_cluster(serving.cluster), new_folder(tmp_path)) == expected


# --- one driver a thread ----------------------------------------------------------------------------------------------


def test_a_thread_that_is_driven_can_be_read_and_neither_run_nor_updated(serving: Serving, tmp_path: Path) -> None:
    graph, thread = asking.busy.with_cluster(serving.cluster), new_thread()

    def stored() -> dict[str, Any]:
        client: Any = serving.cluster.saver.client
        return {key: client.dump(key) for key in serving.keys(thread) if not key.endswith((":lease", "claims"))}

    with serving.client(asking.busy, thread, input={"folder": str(tmp_path)}) as client:
        wait_until(lambda: noted(tmp_path)["waits"], "the graph inside to be at work")
        before = stored()
        with pytest.raises(ThreadBusyError):
            graph.invoke({"folder": str(tmp_path)}, config_of(thread))
        with pytest.raises(ThreadBusyError):
            graph.update_state(config_of(thread), {"log": ["from outside"]}, as_node="a")
        state = graph.get_state(config_of(thread), subgraphs=True)
        assert stored() == before
        (tmp_path / "go").touch()
        _, stderr = client.communicate(timeout=60)
        assert client.returncode == 0, stderr

    assert (state.values["log"], state.next) == (["a"], ("waits",))
    assert graph.get_state(config_of(thread)).values["log"] == ["a", "waited", "b"]
    graph.update_state(config_of(thread), {"log": ["from outside"]}, as_node="b")
    assert graph.get_state(config_of(thread)).values["log"] == ["a", "waited", "b", "from outside"]
    assert noted(tmp_path) == {"a": 1, "waits": 1, "b": 1}


def test_of_two_answers_at_once_one_is_taken(serving: Serving, tmp_path: Path) -> None:
    graph, thread = asking.three_deep.with_cluster(serving.cluster), new_thread()
    graph.invoke({"folder": str(tmp_path)}, config_of(thread))

    def answer(name: str) -> Any:
        try:
            return graph.invoke(Command[str](resume=name), config_of(thread))
        except ThreadBusyError:
            return None

    with ThreadPoolExecutor(2) as pool:
        results = [each for each in pool.map(answer, ["Ann", "Bob"]) if each is not None]
    log = graph.get_state(config_of(thread)).values["log"]
    assert log in (["first", "before", f"answer: {name}", "after", "last"] for name in ("Ann", "Bob"))
    assert any(each["log"] == log for each in results)


# --- faults -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("graph", BOTH, ids=["three deep", "in a function"])
def test_a_coordinator_that_is_killed_after_a_question_was_recorded_loses_no_question_and_no_answer(
    serving: Serving, graph: Graph, tmp_path: Path
) -> None:
    thread = new_thread()
    serving.dies(graph, thread, "release", 1, before=True, input={"folder": str(tmp_path)})
    asked = graph.with_cluster(serving.cluster).get_state(config_of(thread), subgraphs=True).interrupts
    assert [each.value for each in asked] == ["name?"]

    serving.dies(graph, thread, "commit", 1, before=True, resume={asked[0].id: "Ann"})
    result = serving.call(graph, thread, input=None)

    assert result == {
        "result": {"folder": str(tmp_path), "log": ["first", "before", "answer: Ann", "after", "last"]},
        "asked": {},
    }
    ran = noted(tmp_path)
    assert (ran["first"], ran["before"], ran["after"], ran["last"]) == (1, 1, 1, 1)
    serving.cluster.saver.delete_thread(thread)
    assert serving.keys(thread) == []
