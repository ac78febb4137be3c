"""What a node is given beside the state: it asks by the names of its parameters."""

# Some nodes have parameters without annotations.
# pyright: reportUnknownArgumentType=false

import functools
from collections.abc import Callable
from typing import Any, Optional

import pytest
from tests.behaviour.drivers import Drive, compiled
from tests.behaviour.states import Flaky, Update, Words, alone, chain, says
from tests.behaviour.stores import BaseStore, InMemoryStore

from phalanx.config import RunnableConfig, get_config, get_store, get_stream_writer
from phalanx.errors import NodeError
from phalanx.runtime import Runtime, get_runtime
from phalanx.types import StreamWriter

CONFIG: RunnableConfig = {"configurable": {"model": "m"}}


def with_config_unannotated(_: Words, config) -> Update:  # type: ignore[no-untyped-def]  # pyright: ignore
    return {"other": config["configurable"]["model"]}  # pyright: ignore


def with_config(_: Words, config: RunnableConfig) -> Update:
    return {"other": (config.get("configurable") or {})["model"]}


def with_optional_config(_: Words, config: Optional[RunnableConfig] = None) -> Update:  # noqa: UP045
    return {"other": ((config or {}).get("configurable") or {})["model"]}


def with_config_or_none(_: Words, config: RunnableConfig | None = None) -> Update:
    return {"other": ((config or {}).get("configurable") or {})["model"]}


def with_config_by_keyword(_: Words, *, config: RunnableConfig) -> Update:
    return {"other": (config.get("configurable") or {})["model"]}


def with_config_quoted(_: Words, config: "RunnableConfig") -> Update:
    return {"other": (config.get("configurable") or {})["model"]}


class Asks:
    """A callable object, and one with a method."""

    def __call__(self, state: Words, config: RunnableConfig) -> Update:
        return with_config(state, config)

    def method(self, state: Words, config: RunnableConfig) -> Update:
        return with_config(state, config)


def with_more(more: str, state: Words, config: RunnableConfig) -> Update:
    return with_config(state, config)


@pytest.mark.rule("inject-1")
@pytest.mark.parametrize(
    "node",
    [
        with_config_unannotated,
        with_config,
        with_optional_config,
        with_config_or_none,
        with_config_by_keyword,
        with_config_quoted,
        Asks(),
        Asks().method,
        functools.partial(with_more, "x"),
    ],
    ids=["bare", "annotated", "optional", "or none", "keyword", "quoted", "object", "method", "partial"],
)
def test_a_node_that_asks_for_the_config_gets_it(drive: Drive, node: Any) -> None:
    assert drive.invoke(compiled(alone(node)), {}, CONFIG)["other"] == "m"


@pytest.mark.rule("inject-1")
@pytest.mark.not_on("inline", "coroutine_nodes")
def test_a_coroutine_node_that_asks_for_the_config_gets_it(drive: Drive) -> None:
    async def node(state: Words, config: RunnableConfig) -> Update:
        return with_config(state, config)

    assert drive.invoke(compiled(alone(node)), {}, CONFIG)["other"] == "m"


@pytest.mark.rule("inject-1")
def test_a_config_of_another_type_is_not_meant_and_warned_about(drive: Drive) -> None:
    def node(_: Words, config: int = 3) -> Update:
        return {"other": config}

    with pytest.warns(UserWarning, match="The 'config' parameter should be typed as 'RunnableConfig'"):
        graph = compiled(alone(node))
    assert drive.invoke(graph, {}, CONFIG)["other"] == 3


@pytest.mark.rule("inject-1")
def test_what_has_another_name_is_not_given(drive: Drive) -> None:
    def node(_: Words, settings: RunnableConfig | None = None) -> Update:
        return {"other": repr(settings)}

    assert drive.invoke(compiled(alone(node)), {}, CONFIG)["other"] == "None"


@pytest.mark.rule("inject-1")
def test_a_parameter_that_nothing_is_known_for_is_the_node_s_mistake(drive: Drive) -> None:
    def node(_: Words, settings: int) -> Update:
        return {"other": settings}

    with pytest.raises(TypeError, match="missing 1 required positional argument: 'settings'"):
        drive.invoke(compiled(alone(node)), {})


# --- writers ----------------------------------------------------------------------------------------------------------


def with_writer(_: Words, writer: StreamWriter) -> None:
    writer("told")


def with_writer_unannotated(_: Words, writer) -> None:  # type: ignore[no-untyped-def]  # pyright: ignore
    writer("told")


def with_writer_by_keyword(_: Words, *, writer: StreamWriter) -> None:
    writer("told")


def with_writer_of_the_runtime(_: Words, runtime: Runtime) -> None:
    runtime.stream_writer("told")


def with_writer_of_the_context(_: Words) -> None:
    get_stream_writer()("told")


@pytest.mark.rule("inject-2")
@pytest.mark.not_yet("streams of data of a node's own")
@pytest.mark.parametrize(
    "node",
    [
        with_writer,
        with_writer_unannotated,
        with_writer_by_keyword,
        with_writer_of_the_runtime,
        with_writer_of_the_context,
    ],
    ids=["annotated", "bare", "keyword", "of the runtime", "of the context"],
)
def test_a_node_can_stream_data_of_its_own(drive: Drive, node: Any) -> None:
    assert drive.stream(compiled(alone(node)), {}, stream_mode="custom") == ["told"]


@pytest.mark.rule("inject-2")
def test_what_nobody_listens_to_is_written_in_vain(drive: Drive) -> None:
    assert drive.stream(compiled(alone(with_writer)), {}) == [{"a": None}]


@pytest.mark.rule("inject-2")
def test_a_writer_of_another_type_is_not_meant(drive: Drive) -> None:
    def node(_: Words, writer: int = 3) -> Update:
        return {"other": writer}

    assert drive.invoke(compiled(alone(node)), {})["other"] == 3


# --- stores -----------------------------------------------------------------------------------------------------------


def _read(store: BaseStore | None) -> Update:
    found = None if store is None else store.get(("pens",), "red")
    return {"other": None if found is None else found.value["ink"]}


def with_store(_: Words, store: BaseStore) -> Update:
    return _read(store)


def with_store_unannotated(_: Words, store) -> Update:  # type: ignore[no-untyped-def]  # pyright: ignore
    return _read(store)  # pyright: ignore


def with_store_or_none(_: Words, store: BaseStore | None) -> Update:
    return _read(store)


def with_optional_store(_: Words, *, store: Optional[BaseStore] = None) -> Update:  # noqa: UP045
    return _read(store)


def with_store_of_the_runtime(_: Words, runtime: Runtime) -> Update:
    return _read(runtime.store)


def with_store_of_the_context(_: Words) -> Update:
    return _read(get_store())


WITH_STORE: list[Callable[..., Update]] = [
    *(with_store, with_store_unannotated, with_store_or_none, with_optional_store),
    *(with_store_of_the_runtime, with_store_of_the_context),
]
STORE_IDS = ["annotated", "bare", "or none", "optional keyword", "of the runtime", "of the context"]


@pytest.mark.rule("inject-3")
@pytest.mark.parametrize("node", WITH_STORE, ids=STORE_IDS)
def test_a_node_that_asks_for_the_store_gets_the_graph_s(drive: Drive, node: Any) -> None:
    store = InMemoryStore()
    store.put(("pens",), "red", {"ink": 7})

    assert drive.invoke(compiled(alone(node), store=store), {})["other"] == 7


@pytest.mark.rule("inject-3")
@pytest.mark.parametrize("node", WITH_STORE, ids=STORE_IDS)
def test_without_a_store_a_node_that_asks_for_it_gets_none(drive: Drive, node: Any) -> None:
    assert drive.invoke(compiled(alone(node)), {})["other"] is None


@pytest.mark.rule("inject-3")
def test_what_a_node_puts_into_the_store_is_there_after_the_run(drive: Drive) -> None:
    def node(_: Words, store: BaseStore) -> None:
        store.put(("pens",), "blue", {"ink": 3})

    store = InMemoryStore()
    drive.invoke(compiled(alone(node), store=store), {})
    found = store.get(("pens",), "blue")

    assert found is not None
    assert found.value == {"ink": 3}


@pytest.mark.rule("inject-3")
def test_a_store_of_another_type_is_not_meant(drive: Drive) -> None:
    def node(_: Words, store: int = 3) -> Update:
        return {"other": store}

    assert drive.invoke(compiled(alone(node), store=InMemoryStore()), {})["other"] == 3


# --- the rest ---------------------------------------------------------------------------------------------------------


@pytest.mark.rule("inject-4")
@pytest.mark.parametrize("annotation", [Any, int, Runtime, Runtime[str], None], ids=repr)
def test_a_runtime_is_given_whatever_its_annotation(drive: Drive, annotation: Any) -> None:
    def node(_: Words, runtime: Any) -> Update:
        return {"other": runtime.context}

    node.__annotations__["runtime"] = annotation
    if annotation is None:
        del node.__annotations__["runtime"]

    assert drive.invoke(compiled(alone(node)), {}, context={"user": "u"})["other"] == {"user": "u"}


@pytest.mark.rule("inject-4")
def test_there_is_nothing_previous_in_a_graph_of_nodes(drive: Drive) -> None:
    def node(_: Words, previous: Any, runtime: Runtime) -> Update:
        return {"other": [previous, runtime.previous]}

    assert drive.invoke(compiled(alone(node)), {})["other"] == [None, None]


@pytest.mark.rule("inject-4")
def test_a_node_that_asks_for_an_error_gets_none_since_none_was_raised(drive: Drive) -> None:
    def node(_: Words, error: NodeError) -> Update:
        return {"other": error}

    assert drive.invoke(compiled(alone(node)), {})["other"] is None


@pytest.mark.rule("inject-4")
def test_a_node_may_ask_for_everything_in_any_order(drive: Drive) -> None:
    def node(_: Words, runtime: Runtime, store: BaseStore, *, writer: StreamWriter, config: RunnableConfig) -> Update:
        asked = (runtime.store is not None, bool(store), callable(writer), "configurable" in config)
        return {"other": list(asked)}

    assert drive.invoke(compiled(alone(node), store=InMemoryStore()), {}, CONFIG)["other"] == [True] * 4


@pytest.mark.rule("inject-4")
def test_a_path_may_ask_for_what_a_node_may_ask_for(drive: Drive) -> None:
    def path(_: Words, runtime: Runtime, store: BaseStore, config: RunnableConfig) -> str:
        found = (bool(store), runtime.context == {"user": "u"}, "model" in (config.get("configurable") or {}))
        return "b" if all(found) else "c"

    builder = chain("a")
    builder.add_node("b", says("b"))
    builder.add_node("c", says("c"))
    builder.add_conditional_edges("a", path)
    graph = compiled(builder, store=InMemoryStore())

    assert drive.invoke(graph, {}, CONFIG, context={"user": "u"})["words"] == ["a", "b"]


@pytest.mark.rule("inject-5")
@pytest.mark.parametrize("ask", [get_config, get_store, get_stream_writer, get_runtime])
def test_outside_of_a_node_there_is_nothing_to_ask_for(ask: Callable[[], object]) -> None:
    with pytest.raises(RuntimeError, match=r"^Called get_\w+ outside of a runnable context"):
        ask()


@pytest.mark.rule("inject-5")
def test_a_function_that_a_node_calls_can_ask_for_the_config_and_the_runtime(drive: Drive) -> None:
    def deep() -> list[object]:
        runtime = get_runtime()
        return [(get_config().get("metadata") or {})["langgraph_node"], runtime.context]

    def node(_: Words) -> Update:
        return {"other": deep()}

    assert drive.invoke(compiled(alone(node)), {}, context="c")["other"] == ["a", "c"]


@pytest.mark.rule("inject-5")
@pytest.mark.not_on("inline", "coroutine_nodes")
def test_so_can_one_that_a_coroutine_node_calls(drive: Drive) -> None:
    async def node(_: Words) -> Update:
        return {"other": [(get_config().get("metadata") or {})["langgraph_node"], get_runtime().context]}

    assert drive.invoke(compiled(alone(node)), {}, context="c")["other"] == ["a", "c"]


@pytest.mark.rule("inject-5")
def test_after_a_run_there_is_nothing_to_ask_for_again(drive: Drive) -> None:
    drive.invoke(compiled(alone(Flaky())), {})

    with pytest.raises(RuntimeError):
        get_config()
