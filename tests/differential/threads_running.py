"""Doing on a thread what a plan says, and what can be seen of the thread.

The libraries name tasks, checkpoints and questions differently. So what is seen is told by position: a checkpoint by
its place in the history of its namespace, oldest first, a task by the checkpoint it starts from and its place there, a
question by its place among those of the whole thread.
"""

import asyncio
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from tests.differential.states import LibraryName, canonical, library
from tests.differential.threads_building import ANSWERS, Build, Notes
from tests.differential.threads_plans import Act, Thread

_numbers: Final = itertools.count(1)
_LIMIT: Final = 10
_MOST_CALLS: Final = 3
_TASK: Final = re.compile(r":([0-9a-f-]{32,36})")

ErrorText = tuple[str, str]
Namespace = str


@dataclass
class Looked:
    """A thread, as it can be seen.

    Attributes:
        states: the newest of the graph, and those of graphs inside in it.
        histories: of each namespace, newest first.
        configs: the addresses of the checkpoints of the graph itself, newest first.
        questions: those that wait for an answer.
        inner: the addresses of graphs inside of tasks that are due.
        asked: for each checkpoint, the questions that were asked there.
        ended: for each checkpoint, whether a task that starts from it has finished.
        ran: whether a run has made a step.
        updated: whether the newest checkpoint was not made by a run; ``begun`` that tasks have run from it.
        foreign: whether a graph inside of a task that is due shows a state from before that task.
        alone: whether no task is due beside another.
        failed: whether a task has failed that is due.
        due: how many tasks are due; ``finished`` are the nodes of those that have come to their end.
        tasks, interrupts: the positions of tasks and questions, by id.
    """

    state: Any = None
    shallow: Any = None
    histories: dict[Namespace, list[Any]] = field(default_factory=dict[Namespace, list[Any]])
    configs: list[Any] = field(default_factory=list[Any])
    questions: list[str] = field(default_factory=list[str])
    inner: list[Any] = field(default_factory=list[Any])
    asked: list[list[str]] = field(default_factory=list[list[str]])
    ended: list[bool] = field(default_factory=list[bool])
    ran: bool = False
    updated: bool = False
    begun: bool = False
    foreign: bool = False
    alone: bool = True
    failed: bool = False
    due: int = 0
    finished: frozenset[str] = frozenset()
    tasks: dict[str, str] = field(default_factory=dict[str, str])
    interrupts: dict[str, str] = field(default_factory=dict[str, str])

    def place(self, namespace: str) -> str:
        """A namespace with the positions of tasks for their ids."""
        return _TASK.sub(lambda found: ":" + self.tasks.get(found[1], "?"), namespace)

    def sorted(self, questions: Any) -> list[Any]:
        """What one task has asked; in which order graphs inside of it ask, is luck with theirs."""
        return sorted(questions, key=lambda question: (str(question.value), self.interrupts.get(question.id, "?")))

    def ids(self, snapshot: Any) -> list[str]:
        """The ids of the questions of a snapshot."""
        return [asked.id for task in snapshot.tasks for asked in self.sorted(task.interrupts)]


@dataclass
class Done:
    """What can be seen of one act.

    Attributes:
        chunks: the raw stream.
        result: what the call returned.
        ran: the nodes, and what they saw.
    """

    chunks: list[Any] = field(default_factory=list[Any])
    result: Any = None
    error: ErrorText | None = None
    ran: list[str] = field(default_factory=list[str])
    looked: Looked = field(default_factory=Looked)


class Running:
    """A thread of one library's graph.

    Args:
        name: whose library.
        plan: the thread.
        loop: runs it, if it is to run on an event loop.
        cluster: runs its tasks, if they are not to run in this process.
    """

    def __init__(
        self, name: LibraryName, plan: Thread, loop: asyncio.Runner | None = None, cluster: Any = None
    ) -> None:
        self.name, self.plan, self.loop = name, plan, loop
        self.notes = Notes()
        self.build = Build(name, plan.graph, self.notes)
        self.types = library(name).types
        self.graph: Any = self.build.compiled(
            None if cluster else library(name).saver(), name=f"threads-{next(_numbers)}"
        )
        if cluster is not None:
            self.graph = self.graph.with_cluster(cluster)
        self.thread = {"thread_id": f"thread-{next(_numbers)}"}
        self.unkept = any(inner.kept == "none" for inner in plan.graph.graphs)
        self.looked = Looked()

    def act(self, number: int, act: Act) -> Done:
        """Do one thing."""
        done = Done()
        self.notes.ran.clear()
        self.notes.healthy = act.healthy
        try:
            if act.do == "update":
                self._update(act, number)
            else:
                self._run(act, number, done)
        except Exception as error:
            done.error = type(error).__name__, str(error).split("\n")[0].replace(self.graph.name, "graph")
        done.ran = sorted(self.notes.ran)
        done.looked = self.looked = self.look()
        return done

    def config(self, act: Act) -> dict[str, Any]:
        """Where an act starts."""
        configs, inner = self.looked.configs, self.looked.inner
        configurable = self.thread
        if act.inside and inner:
            configurable = inner[0]["configurable"]
        elif act.at is not None and configs:
            configurable = configs[act.at % len(configs)]["configurable"]
        return {"recursion_limit": _LIMIT, "configurable": configurable}

    # --- acts ---------------------------------------------------------------------------------------------------------

    def _update(self, act: Act, number: int) -> None:
        steps = [[self.types.StateUpdate(*self.build.change(each, number)) for each in step] for step in act.changes]
        config = {"configurable": self.config(act)["configurable"]}
        if len(steps) == 1 and len(steps[0]) == 1:
            if self.loop is None:
                self.graph.update_state(config, *steps[0][0][:2])
            else:
                self.loop.run(self.graph.aupdate_state(config, *steps[0][0][:2]))
        elif self.loop is None:
            self.graph.bulk_update_state(config, steps)
        else:
            self.loop.run(self.graph.abulk_update_state(config, steps))

    def _run(self, act: Act, number: int, done: Done) -> None:
        given, config = self._given(act, number), self.config(act)
        options: dict[str, Any] = {}
        if not self.unkept:  # theirs cannot be told with graphs that keep nothing
            options["durability"] = act.durability
        if act.before:
            options["interrupt_before"] = self.build.stops(act.before)
        if act.after:
            options["interrupt_after"] = self.build.stops(act.after)
        if act.way == "invoke":
            if self.loop is None:
                done.result = self.graph.invoke(given, config, **options)
            else:
                done.result = self.loop.run(self.graph.ainvoke(given, config, **options))
            return
        options |= {"stream_mode": ["values", "updates"], "subgraphs": act.way == "deep"}
        if self.loop is None:
            for chunk in self.graph.stream(given, config, **options):
                done.chunks.append(chunk)
        else:
            self.loop.run(self._stream(done, self.graph.astream(given, config, **options)))

    async def _stream(self, done: Done, chunks: Any) -> None:
        async for chunk in chunks:
            done.chunks.append(chunk)

    def _given(self, act: Act, number: int) -> Any:
        values = self.build.values(act.values, f"input {number}.")
        match act.do:
            case "input":
                return values
            case "nothing":
                return None
            case "command":
                return self.types.Command(update=values or {"value": 1}, goto=list(map(self.build.node, act.gotos)))
            case _:
                return self.types.Command(resume=self._answer(act, number))

    def _answer(self, act: Act, number: int) -> Any:
        answer = ANSWERS[act.answer] if act.answer < 4 else f"{ANSWERS[act.answer]} {number}"
        waiting = self.waiting(act)
        if act.do == "answer" or not waiting:
            return answer
        chosen = sorted({place % len(waiting) for place in act.answered})
        return {waiting[place]: f"{answer} {place}" for place in chosen}

    def waiting(self, act: Act) -> list[str]:
        """The ids of the questions that may be answered where an act starts."""
        if not act.at or not self.looked.configs:
            return self.looked.questions
        return self.looked.asked[act.at % len(self.looked.configs)]

    # --- looking ------------------------------------------------------------------------------------------------------

    def look(self) -> Looked:
        """All that is known of the thread."""
        looked = Looked()
        state, shallow = (self._state(subgraphs) for subgraphs in (True, False))
        todo: list[tuple[str, int]] = [("", 0)]
        raw: dict[str, list[Any]] = {}
        while todo:
            asked_for, call = todo.pop(0)
            found = self._history(asked_for)
            namespace = found[0].config["configurable"]["checkpoint_ns"] if found else ""
            if namespace in raw or not found:
                continue
            raw[namespace] = found
            if asked_for and call < _MOST_CALLS:
                todo.append((f"{asked_for.removesuffix(f'|{call}')}|{call + 1}", call + 1))
            for place, snapshot in enumerate(reversed(found)):
                for number, task in enumerate(snapshot.tasks):
                    looked.tasks.setdefault(task.id, f"{place}.{number}")
                    for turn, asked in enumerate(sorted(task.interrupts, key=lambda asked: str(asked.value))):
                        label = f"{looked.place(namespace)} {place}.{number}.{turn}"
                        looked.interrupts[asked.id] = label  # a graph inside comes later, and knows better
                    if task.state is not None:
                        todo.append((task.state["configurable"]["checkpoint_ns"], 0))
        for namespace, snapshots in raw.items():
            view = View(looked, raw)
            looked.histories[looked.place(namespace)] = [view.snapshot(each) for each in snapshots]
        view = View(looked, raw)
        looked.state, looked.shallow = (state and view.snapshot(state)), (shallow and view.snapshot(shallow))
        history = raw.get("", [])
        if history:
            middle = history[len(history) // 2].config
            parts = {
                "filtered": self._history("", filter={"source": "loop", "step": len(history) // 2}),
                "limited": self._history("", limit=2),
                "before": self._history("", before=middle, limit=3),
                "chosen": [self._state(subgraphs=True, config=middle)],
            }
            looked.histories |= {key: [view.snapshot(each) for each in part] for key, part in parts.items()}
        looked.configs = [each.config for each in history]
        looked.asked = [looked.ids(each) for each in history]
        looked.ended = [any(task.result is not None for task in each.tasks) for each in history]
        looked.ran = any(each.metadata["source"] == "loop" for each in history)
        if state is not None:
            looked.due = len(state.next)
            looked.finished = frozenset(task.name for task in state.tasks if task.result is not None)
            metadata: dict[str, Any] = state.metadata or {}
            looked.updated = metadata.get("source") in ("update", "fork")
            looked.begun = any(task.result is not None or task.error or task.interrupts for task in state.tasks)
            looked.questions = looked.ids(state)
            looked.failed = any(task.error is not None for task in state.tasks)
            looked.foreign, looked.alone = _foreign(state), _alone(state)
            looked.inner = [task.state.config for task in state.tasks if task.state is not None and task.state.metadata]
        return looked

    def _state(self, subgraphs: bool, config: Any = None) -> Any:
        config = config or {"configurable": self.thread}
        if self.loop is None:
            return self.graph.get_state(config, subgraphs=subgraphs)
        return self.loop.run(self.graph.aget_state(config, subgraphs=subgraphs))

    def _history(self, namespace: str, **options: Any) -> list[Any]:
        config = {"configurable": {**self.thread, "checkpoint_ns": namespace}}
        if self.loop is None:
            return [*self.graph.get_state_history(config, **options)]
        return self.loop.run(_all(self.graph.aget_state_history(config, **options)))


def _foreign(snapshot: Any) -> bool:
    """Whether the state of a graph inside of a task is from before that task."""
    here: dict[str, Any] = snapshot.config["configurable"]
    namespace, identity = here.get("checkpoint_ns", ""), here.get("checkpoint_id")
    inside = [task.state for task in snapshot.tasks if task.state is not None and task.result is None]
    return any(
        each.metadata is not None and (each.metadata["parents"].get(namespace) != identity or _foreign(each))
        for each in inside
    )


def _alone(snapshot: Any) -> bool:
    inside = [task.state for task in snapshot.tasks if task.state is not None]
    return len(snapshot.tasks) < 2 and all(map(_alone, inside))


async def _all(states: Any) -> list[Any]:
    return [each async for each in states]


class View:
    """Snapshots with positions for ids."""

    def __init__(self, looked: Looked, raw: dict[str, list[Any]]) -> None:
        self.looked = looked
        self.places = {
            (namespace, each.config["configurable"]["checkpoint_id"]): len(snapshots) - 1 - place
            for namespace, snapshots in raw.items()
            for place, each in enumerate(snapshots)
        }

    def snapshot(self, snapshot: Any) -> dict[str, Any]:
        """A snapshot as plain data."""
        metadata: dict[str, Any] = snapshot.metadata or {}
        return {
            "at": self._at(snapshot.config),
            "parent": self._at(snapshot.parent_config),
            "values": canonical(snapshot.values),
            "next": snapshot.next,
            "source": metadata.get("source"),
            "step": metadata.get("step"),
            "parents": sorted(
                (self.looked.place(namespace), self.places.get((namespace, identity), "?"))
                for namespace, identity in metadata.get("parents", {}).items()
            ),
            "tasks": [self._task(task) for task in snapshot.tasks],
            "interrupts": [each for task in snapshot.tasks for each in self._questions(task)],
            "count": len(snapshot.interrupts),
        }

    def _questions(self, task: Any) -> list[str]:
        return [self.question(each) for each in self.looked.sorted(task.interrupts)]

    def question(self, question: Any) -> str:
        """A question."""
        return f"{question.value} <{self.looked.interrupts.get(question.id, '?')}>"

    def shown(self, value: Any) -> str:
        """Something streamed or returned, as text."""
        if isinstance(value, dict):
            items = cast("dict[str, Any]", value).items()
            return "{" + ", ".join(sorted(f"{key}: {self.shown(item)}" for key, item in items)) + "}"
        if isinstance(value, (list, tuple)):
            each = cast("Sequence[Any]", value)
            texts = [self.shown(item) for item in each]
            return "[" + ", ".join(sorted(texts) if any(hasattr(item, "id") for item in each) else texts) + "]"
        return self.question(value) if hasattr(value, "id") else repr(value)

    def _at(self, config: Any) -> Any:
        if config is None:
            return None
        configurable = config["configurable"]
        namespace, identity = configurable.get("checkpoint_ns", ""), configurable.get("checkpoint_id")
        around = sorted(
            (self.looked.place(name), self.places.get((name, each), "?"))
            for name, each in configurable.get("checkpoint_map", {}).items()
        )
        return self.looked.place(namespace), identity and self.places.get((namespace, identity), "?"), around

    def _task(self, task: Any) -> dict[str, Any]:
        state = task.state
        if state is not None:
            state = self._at(state) if isinstance(state, dict) else self.snapshot(state)
        return {
            "name": task.name,
            "kind": task.path[0],
            "error": task.error and task.error.split(". ")[0].split("\\n")[0],
            "interrupts": self._questions(task),
            "result": None if task.result is None else canonical(task.result),
            "state": state,
        }


def blocks(done: Done, deep: bool) -> dict[str, list[Any]]:
    """A stream by namespace: values, and between them, sorted, what may come in any order."""
    view = View(done.looked, {})
    found: dict[str, list[Any]] = {}
    for namespace, mode, data in _with_namespaces(done.chunks, deep):
        parts = found.setdefault(done.looked.place("|".join(namespace)), [[]])
        if mode == "values" and "__interrupt__" not in data:
            parts += [view.shown(data), []]
        else:
            parts[-1].append(f"{mode} {view.shown(data)}")
    return {place: _sorted(parts, unclear="?" in place) for place, parts in found.items()}


def _sorted(parts: list[list[str] | str], *, unclear: bool) -> list[Any]:
    """Sort what lies between values; or all, if ``unclear``, since several namespaces may have got one name."""
    if unclear:
        return sorted(str(text) for part in parts for text in (part if isinstance(part, list) else [part]))
    return [sorted(map(str, part)) if isinstance(part, list) else part for part in parts]


def _with_namespaces(chunks: list[Any], deep: bool) -> Iterator[Any]:
    for chunk in chunks:
        yield chunk if deep else ((), *chunk)
