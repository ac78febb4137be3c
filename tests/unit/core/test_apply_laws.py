"""What holds for the supersteps of any graph: the order in which tasks finished has no part in the result, a step that
fails does nothing, and planning by what was updated finds what looking at every node finds."""

import operator
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit import blueprints as made
from tests.unit.blueprints import content, graph, node, planned

from phalanx.channels import (
    AnyValue,
    BinaryOperatorAggregate,
    EphemeralValue,
    LastValue,
    LastValueAfterFinish,
    NamedBarrierValue,
    NamedBarrierValueAfterFinish,
    Topic,
    UntrackedValue,
)
from phalanx.coordinator.apply import TaskWrites, apply_writes
from phalanx.coordinator.plan import path_order
from phalanx.coordinator.state import GraphState, count_up
from phalanx.errors import InvalidUpdateError
from phalanx.protocol.names import NO_WRITES, PULL, TASKS
from phalanx.types import Send, Update
from phalanx.worker.blueprint import Blueprint

NODES: Final = ("a", "b", "c", "n10", "n2")
CHANNELS: Final[dict[str, Callable[[], object]]] = {
    "plain": lambda: LastValue[object](object),
    "log": lambda: BinaryOperatorAggregate[list[int]](list[int], operator.add),
    "mail": lambda: Topic[int](int),
    "all_mail": lambda: Topic[int](int, accumulate=True),
    "any": lambda: AnyValue[object](object),
    "hint": lambda: EphemeralValue[object](object, guard=False),
    "guarded": lambda: EphemeralValue[object](object, guard=True),
    "untracked": lambda: UntrackedValue[object](object),
    "last": lambda: LastValueAfterFinish[object](object),
    "join": lambda: NamedBarrierValue[str](str, {"a", "b"}),
    "last_join": lambda: NamedBarrierValueAfterFinish[str](str, {"a", "b"}),
}
many_steps = settings(max_examples=150, deadline=None)


@dataclass(frozen=True)
class Story:
    """A graph, and for each superstep and task what it writes."""

    triggers: dict[str, tuple[str, ...]]
    writes: list[list[list[Update]]]

    def blueprint(self) -> Blueprint:
        nodes = [node(name, *triggers) for name, triggers in self.triggers.items()]
        return graph(*nodes, channels={name: make() for name, make in CHANNELS.items()})

    def tasks(self, step: int, blueprint: Blueprint, state: GraphState) -> list[TaskWrites]:
        """What the tasks of a superstep wrote; the same for every state with the same tasks."""
        ready = planned(blueprint, state)
        writes = self.writes[step]
        return [
            TaskWrites(one.path, one.name, one.triggers, writes[place % len(writes)] if writes else [])
            for place, one in enumerate(sorted(ready, key=lambda task: path_order(task.path)))
        ]


numbers = st.integers(0, 9)
written = st.one_of(
    st.tuples(st.sampled_from(["plain", "any", "hint", "guarded", "untracked", "last"]), numbers),
    st.tuples(st.just("log"), st.lists(numbers, max_size=2)),
    st.tuples(st.sampled_from(["mail", "all_mail"]), st.one_of(numbers, st.lists(numbers, max_size=2))),
    st.tuples(st.sampled_from(["join", "last_join"]), st.sampled_from(["a", "b"])),
    st.tuples(st.sampled_from([f"to:{name}" for name in NODES]), st.none()),
    st.tuples(st.just(TASKS), st.builds(Send, st.sampled_from(NODES), numbers)),
    st.tuples(st.just(NO_WRITES), st.none()),
)
refused = st.sampled_from([("join", "nobody"), (TASKS, Send("nobody", 0)), ("log", 1), ("last_join", "nobody")])
triggers = st.lists(st.sampled_from(sorted(CHANNELS)), max_size=2, unique=True)


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """Graphs whose nodes are triggered by an edge and up to two other channels, and up to six supersteps."""
    found = {name: (f"to:{name}", *draw(triggers)) for name in NODES}
    task_writes = st.lists(written, max_size=4)
    return Story(found, draw(st.lists(st.lists(task_writes, min_size=1, max_size=4), min_size=1, max_size=6)))


def first_step(story: Story, blueprint: Blueprint) -> GraphState:
    """The state after an input that triggers two nodes and writes whatever the story's first task does."""
    state = GraphState.fresh(blueprint)
    writes: Sequence[Update] = [("to:a", None), ("to:n2", None), *story.writes[0][0]]
    with suppress(InvalidUpdateError):
        apply_writes(blueprint, state, [made.given(*writes)], count_up)
    if not state.versions:
        apply_writes(blueprint, state, [made.given(("to:a", None), ("to:n2", None))], count_up)
    return state


@many_steps
@given(story=stories(), random=st.randoms(use_true_random=False))
def test_the_order_in_which_tasks_finish_has_no_part_in_the_result(story: Story, random: Random) -> None:
    blueprint = story.blueprint()
    one, other = first_step(story, blueprint), first_step(story, blueprint)
    assert content(one) == content(other)

    for step in range(len(story.writes)):
        in_order = story.tasks(step, blueprint, one)
        shuffled = list(in_order)
        random.shuffle(shuffled)
        outcomes: list[object] = []
        for state, tasks in ((one, in_order), (other, shuffled)):
            try:
                outcomes.append(apply_writes(blueprint, state, tasks, count_up))
            except InvalidUpdateError as error:
                outcomes.append(str(error))

        assert outcomes[0] == outcomes[1]
        assert content(one) == content(other)
        assert planned(blueprint, one) == planned(blueprint, other)


@many_steps
@given(story=stories(), bad=refused, where=st.integers(0, 9))
def test_a_step_that_fails_does_nothing(story: Story, bad: Update, where: int) -> None:
    blueprint = story.blueprint()
    state = first_step(story, blueprint)

    for step in range(len(story.writes)):
        tasks = story.tasks(step, blueprint, state)
        if not tasks:
            break
        broken = list(tasks)
        at = where % len(tasks)
        broken[at] = TaskWrites(tasks[at].path, tasks[at].name, tasks[at].triggers, [*tasks[at].writes, bad])
        before, channels, due = content(state), dict(state.channels), planned(blueprint, state)

        with suppress(InvalidUpdateError, TypeError):
            apply_writes(blueprint, state, broken, count_up)
            raise AssertionError("a step with a write that no channel takes was applied")

        assert content(state) == before
        assert planned(blueprint, state) == due
        assert all(state.channels[name] is channels[name] for name in channels)
        with suppress(InvalidUpdateError):
            apply_writes(blueprint, state, tasks, count_up)


@many_steps
@given(story=stories())
def test_what_the_state_knows_of_itself_is_what_looking_at_everything_finds(story: Story) -> None:
    blueprint = story.blueprint()
    state = first_step(story, blueprint)

    for step in range(len(story.writes)):
        with suppress(InvalidUpdateError):
            apply_writes(blueprint, state, story.tasks(step, blueprint, state), count_up)

        expiring = {name for name, one in state.channels.items() if one.copy().update([])}
        may_finish = {name for name, one in state.channels.items() if one.copy().finish()}
        assert state.expiring >= expiring
        assert state.unfinished >= may_finish
        assert state.newest == max(state.versions.values(), key=int)
        assert all(state.channels[name].is_available() for name in state.updated or ())


@many_steps
@given(story=stories())
def test_a_run_that_is_taken_up_again_from_storage_goes_on_as_if_it_had_not_stopped(story: Story) -> None:
    blueprint = story.blueprint()
    state = first_step(story, blueprint)

    for step in range(len(story.writes)):
        values = {name: one.checkpoint() for name, one in state.channels.items() if name != "untracked"}
        loaded = GraphState.load(blueprint, values, state.versions, state.seen)
        loaded.updated = state.updated
        untracked = {name for name, spec in blueprint.nodes.items() if "untracked" in spec.triggers}
        expected = [one for one in planned(blueprint, state) if one.name not in untracked or one.path[0] != PULL]
        found = [one for one in planned(blueprint, loaded) if one.name not in untracked or one.path[0] != PULL]
        assert found == expected
        with suppress(InvalidUpdateError):
            apply_writes(blueprint, state, story.tasks(step, blueprint, state), count_up)
