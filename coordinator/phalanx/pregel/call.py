"""One call of ``invoke`` or ``stream``: its arguments checked, and where it belongs when it is made inside a task."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypedDict, cast

from typing_extensions import is_typeddict

from phalanx.checkpoint.base import BaseCheckpointSaver
from phalanx.checkpoint.configs import CheckpointAddress
from phalanx.config import DEFAULT_RECURSION_LIMIT, SURROUNDINGS, RunnableConfig, merge_configs
from phalanx.coordinator.busy import IfBusy
from phalanx.coordinator.messages import Emit
from phalanx.coordinator.observe import SILENT, RunObserver
from phalanx.coordinator.opening import Place
from phalanx.coordinator.output import Keys, as_names
from phalanx.coordinator.run import Run
from phalanx.coordinator.state import next_version_of
from phalanx.coordinator.stops import Names, Stops
from phalanx.coordinator.terms import RunSettings
from phalanx.errors import GraphInterrupt
from phalanx.protocol.names import INTERRUPT
from phalanx.runtime import RunControl, write_nothing
from phalanx.types import STREAM_MODES, All, Durability, StreamMode, StreamWriter
from phalanx.worker.blueprint import Blueprint
from phalanx.worker.lineage import Lineage, levels
from phalanx.worker.task_context import RunContext, TaskContext, nested_config

Modes = StreamMode | Sequence[StreamMode] | None

_LATER_MODES: Final[tuple[str, ...]] = ("messages", "custom", "tasks", "checkpoints", "debug")
_LEAST: Final = {"recursion_limit": 1, "max_concurrency": 1}
_DURABILITIES: Final[tuple[Durability, ...]] = ("sync", "async", "exit")


class CallOptions(TypedDict, total=False):
    """What a run can be asked for beside its input and config.

    Keys:
        stream_mode: ``"updates"`` (default of a state graph) streams ``{node: update}`` as each task finishes;
            ``"values"`` the state after each step. A list of modes streams ``(mode, data)``.
        subgraphs: stream what graphs inside nodes do too; each chunk has the graph's namespace before it, a tuple.
        context: what nodes find as ``runtime.context``; a dict becomes an instance of the ``context_schema``.
        output_keys: the state keys to show.
        interrupt_before, interrupt_after: nodes to stop at, instead of those the graph was compiled with; ``"*"`` for
            all. ``input=None`` goes on.
        durability: when a checkpoint is stored: ``"sync"`` (default) before the next superstep begins, ``"async"`` in
            the background, in order, ``"exit"`` once when the run ends.
        control: a switch to stop the run between two supersteps.
        observer: hooks for progress.
        if_busy: what to do when another run drives the thread: ``"refuse"`` (default) to run, or ``"enqueue"`` to wait.
    """

    stream_mode: Modes
    subgraphs: bool
    context: Any
    output_keys: str | Sequence[str] | None
    interrupt_before: All | Sequence[str] | None
    interrupt_after: All | Sequence[str] | None
    durability: Durability | None
    control: RunControl | None
    observer: RunObserver | None
    if_busy: IfBusy


@dataclass(frozen=True, slots=True)
class Callee:
    """What a call needs to know of the graph that is called.

    Attributes:
        saver: what the graph was compiled with: a saver, ``True`` for state that lasts inside of a graph around it,
            ``False`` for none, ``None`` for that of the graph around it.
        config: what its runs start from.
        stops: the nodes to stop at.
        on_cluster: whether it runs on a cluster, which keeps threads for graphs without a saver.
    """

    blueprint: Blueprint
    saver: "BaseCheckpointSaver | bool | None"
    config: RunnableConfig
    stops: Stops
    on_cluster: bool


@dataclass(frozen=True, slots=True)
class Call:
    """One call, ready to be driven.

    Attributes:
        context: what the tasks of its run share.
        place: where in a thread it belongs; ``None`` if nothing is kept.
        saver: keeps its thread; ``None`` if nobody does, or a cluster.
        modes: the stream modes that were asked for.
        nested: whether it is made inside a task.
    """

    settings: RunSettings
    context: RunContext
    observer: RunObserver
    place: Place | None
    saver: BaseCheckpointSaver | None
    modes: Modes
    subgraphs: bool = False
    nested: bool = False
    if_busy: IfBusy = "refuse"

    @classmethod
    def of(
        cls, graph: Callee, config: RunnableConfig | None, modes: Modes, output: Keys, options: CallOptions
    ) -> "Call":
        """Check what was asked for.

        Args:
            modes: the stream modes to emit.
            output: the keys to show, unless the options name others.

        Raises:
            ValueError: there is no such stream mode, output key, node or durability; a number in the config is too
                small; or no thread is named where one is kept.
            TypeError: an option is unknown or no such thing, a number in the config is none, or ``context`` does not
                fit the graph's ``context_schema``.
            RuntimeError: the graph keeps its state in that of a graph around it, and there is none.
        """
        _check_options(options)
        outer = cast("TaskContext | None", SURROUNDINGS.get())
        inherited = None if outer is None else nested_config(outer.config)
        merged = merge_configs(inherited, graph.config, config)
        for key, least in _LEAST.items():
            _check_number(key, merged.get(key), least)
        settled = _Settled.of(graph, merged, config, outer)
        blueprint = graph.blueprint
        context = coerced_context(blueprint.context_schema, options.get("context"))
        control, store = options.get("control"), blueprint.store
        writer: StreamWriter = write_nothing
        if outer is not None:
            around = outer.runtime
            context = around.context if context is None else context
            control, store = control or around.control, around.store if store is None else store
            writer = around.stream_writer
        control = control or RunControl()
        saver = settled.saver
        keys = options.get("output_keys")
        asked_durability = _checked_durability(options.get("durability"))
        if asked_durability is not None and saver is None and not graph.on_cluster:
            warnings.warn("`durability` has no effect when no checkpointer is present.", stacklevel=4)
        durability = asked_durability or settled.lineage.durability
        below = settled.lineage.below
        heard = _checked_modes(modes)
        run_settings = RunSettings(
            merged.get("recursion_limit", DEFAULT_RECURSION_LIMIT),
            heard if below is None else heard | settled.lineage.below_modes,
            _checked_output(blueprint, output if keys is None else keys),
            next_version=next_version_of(saver),
            kept=settled.place is not None,
            stops=_checked_stops(graph, options),
            drain_reason=lambda: control.drain_reason,
        )
        lineage = replace(settled.lineage, durability=durability)
        around_run = RunContext(settled.config, context, store, control, writer, lineage)
        return cls(
            run_settings,
            around_run,
            options.get("observer") or SILENT,
            settled.place,
            saver,
            modes,
            options.get("subgraphs", False),
            outer is not None and settled.nested,
            _checked_if_busy(options.get("if_busy", "refuse")),
        )

    @property
    def listens(self) -> frozenset[StreamMode]:
        """The modes in which what graphs inside stream is wanted too."""
        return _checked_modes(self.modes) if self.subgraphs else frozenset()

    def takes(self, emit: Emit) -> bool:
        """Whether the caller wants this. If the run is inside another that listens, that one is told of it too."""
        lineage = self.context.lineage
        if not emit.namespace and lineage.below is not None and emit.mode in lineage.below_modes:
            lineage.below(levels(lineage.namespace), emit.mode, emit.data)
        return emit.mode in _checked_modes(self.modes)

    def chunk(self, emit: Emit) -> object:
        """What a stream yields for this."""
        namespace = emit.namespace or levels(self.context.lineage.namespace)
        if isinstance(self.modes, str):
            return (namespace, emit.data) if self.subgraphs else emit.data
        return (namespace, emit.mode, emit.data) if self.subgraphs else (emit.mode, emit.data)

    def check_ending(self, run: Run) -> None:
        """Have a node stop in which the graph was called that asks something.

        Raises:
            GraphInterrupt: with the questions.
        """
        if self.nested and run.interrupted:
            raise GraphInterrupt(run.questions)

    def result(self, run: Run) -> object:
        """What the caller gets: the output, and what is to be answered.

        Raises:
            GraphInterrupt: the caller is a node.
        """
        self.check_ending(run)
        output = run.output()
        if not run.questions:
            return output
        asked = {INTERRUPT: [*run.questions]}
        return {**cast("dict[str, object]", output), **asked} if isinstance(output, dict) else asked


@dataclass(frozen=True, slots=True)
class _Settled:
    """Where a call belongs: in a thread of its own, or in that of the run around it.

    Attributes:
        config: the run's config, which says so too.
    """

    config: RunnableConfig
    saver: BaseCheckpointSaver | None
    place: Place | None
    lineage: Lineage
    nested: bool

    @classmethod
    def of(
        cls, graph: Callee, config: RunnableConfig, given: RunnableConfig | None, outer: TaskContext | None
    ) -> "_Settled":
        own = graph.saver if not isinstance(graph.saver, bool) else None
        if outer is None or (own is not None and _names_a_thread(given, outer)):
            return cls._outermost(graph, own, config)
        return cls._inside(graph, own, config, outer)

    @classmethod
    def _outermost(cls, graph: Callee, own: BaseCheckpointSaver | None, config: RunnableConfig) -> "_Settled":
        if graph.saver is True:
            raise RuntimeError(
                "checkpointer=True cannot be used for root graphs. It keeps a graph's state in the thread of the graph "
                "around it, and there is none; compile this one with a saver"
            )
        configurable = config.get("configurable", {})
        pointed: Mapping[str, str] = configurable.get("checkpoint_map") or {}
        inside = str(configurable.get("checkpoint_ns") or "")
        place = None
        if own is not None or (graph.on_cluster and "thread_id" in configurable):
            address = CheckpointAddress.of(config)
            place = Place(
                address.thread_id, "", pointed.get("") if pointed else None if inside else address.checkpoint_id
            )
        seeds = {namespace: checkpoint for namespace, checkpoint in pointed.items() if namespace}
        return cls(_placed(config, ""), own, place, Lineage(saver=own, seeds=seeds), False)

    @classmethod
    def _inside(
        cls, graph: Callee, own: BaseCheckpointSaver | None, config: RunnableConfig, outer: TaskContext
    ) -> "_Settled":
        around = outer.run.lineage
        called, lasts = outer.next_call()
        namespace = lasts if graph.saver is True else called
        saver = None if graph.saver is False else own or around.saver
        seed = next((old for old, new in around.moved.items() if new == called and old in around.seeds), None)
        place = None
        if saver is not None:
            place = Place(
                CheckpointAddress.of(config).thread_id,
                namespace,
                None if seed is None else around.seeds[seed],
                seed,
                around,
                (around.namespace, outer.checkpoint_id),
                lasts=graph.saver is True or (own is not None and own is not around.saver),
            )
        lineage = replace(
            around,
            namespace=namespace,
            saver=saver,
            parents={**around.parents, around.namespace: outer.checkpoint_id},
            moved={},
        )
        return cls(_placed(config, namespace), saver, place, lineage, True)


def _placed(config: RunnableConfig, namespace: str) -> RunnableConfig:
    """The config of a run at a place in its thread."""
    left_out = {"checkpoint_id", "checkpoint_map", "checkpoint_ns"}
    configurable = {key: value for key, value in config.get("configurable", {}).items() if key not in left_out}
    if namespace:
        configurable["checkpoint_ns"] = namespace
    return {**config, "configurable": configurable} if configurable or "configurable" in config else config


def _names_a_thread(given: RunnableConfig | None, outer: TaskContext) -> bool:
    """Whether a graph called inside a task is pointed to a thread, rather than given the task's own config."""
    configurable = (given or {}).get("configurable", {})
    return "thread_id" in configurable and configurable.get("checkpoint_ns") != outer.namespace


def _check_options(options: CallOptions) -> None:
    unknown = [key for key in options if key not in CallOptions.__annotations__]
    if unknown:
        raise TypeError(f"unknown option {unknown[0]!r}; there are: {', '.join(CallOptions.__annotations__)}")
    control = options.get("control")
    if control is not None and not hasattr(control, "drain_requested"):
        raise TypeError(f"control must be a RunControl(); got {control!r}")


def _check_number(key: str, value: object, least: int) -> None:
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{key} must be a whole number; got {value!r} of type {type(value).__name__}")
    if value < least:
        raise ValueError(f"{key} must be at least {least}; got {value}")


def _checked_modes(modes: Modes) -> frozenset[StreamMode]:
    chosen: list[StreamMode] = [modes] if isinstance(modes, str) else list(modes or ())
    for mode in chosen:
        if str(mode) in _LATER_MODES:
            raise ValueError(f"stream_mode {mode!r} is not there yet; there are: {', '.join(STREAM_MODES)}")
        if mode not in STREAM_MODES:
            raise ValueError(f"unknown stream_mode {mode!r}; it must be one of: {', '.join(STREAM_MODES)}")
    return frozenset(chosen)


def _checked_durability(given: Durability | None) -> Durability | None:
    if given is not None and given not in _DURABILITIES:
        raise ValueError(f"unknown durability {given!r}; it must be one of: {', '.join(_DURABILITIES)}")
    return given


def _checked_if_busy(given: IfBusy) -> IfBusy:
    if given not in ("refuse", "enqueue"):
        raise ValueError(f"if_busy must be 'refuse' or 'enqueue'; got {given!r}")
    return given


def _checked_output(blueprint: Blueprint, output: Keys) -> Keys:
    for key in as_names(output):
        if key not in blueprint.channels:
            known = ", ".join(as_names(blueprint.stream_channels))
            raise ValueError(f"output_keys names {key!r}, which is not a state key; there are: {known}")
    return output


def _checked_stops(graph: Callee, options: CallOptions) -> Stops:
    before, after = options.get("interrupt_before"), options.get("interrupt_after")
    return Stops(
        graph.stops.before if before is None else stops_at(before, graph.blueprint),
        graph.stops.after if after is None else stops_at(after, graph.blueprint),
    )


def stops_at(given: All | Sequence[str] | None, blueprint: Blueprint) -> Names:
    """Nodes to stop at, checked.

    Raises:
        TypeError: it is one name, where a list belongs.
        ValueError: there is no such node.
    """
    if given == "*":
        return "*"
    if isinstance(given, str):
        raise TypeError(f"interrupts are a list of node names, or '*' for every node; got {given!r}")
    names = frozenset(str(name) for name in given or ())
    for name in sorted(names):
        if name not in blueprint.nodes:
            known: Literal[""] | str = ", ".join(each for each, node in blueprint.nodes.items() if not node.hidden)
            raise ValueError(f"Interrupt node `{name}` not found; the nodes of {blueprint.called} are: {known}")
    return names


def coerced_context(schema: object, given: object) -> object:
    """The context as nodes see it: a dict becomes an instance of a schema that is a dataclass or a model.

    Raises:
        TypeError: the dict does not fit the schema; a model raises its own ``ValidationError``.
    """
    if not isinstance(schema, type) or is_typeddict(schema) or not isinstance(given, dict) or schema is dict:
        return given  # pyright: ignore[reportUnknownVariableType]
    return schema(**cast("dict[str, Any]", given))
