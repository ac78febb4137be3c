"""How much room threads take on the server. Sizes do not depend on the machine, so they are tested; times are not."""

from typing import Any

import pytest
from bench.threads import growth_bytes, packets_graph, talk_graph, used_bytes
from tests.integration.keyspace import Keyspace

from phalanx.checkpoint.redis import RedisSaver
from phalanx.checkpoint.redis.client import scanned
from phalanx.config import RunnableConfig

MEGABYTE = 1_000_000


@pytest.fixture
def saver(keyspace: Keyspace) -> RedisSaver:
    return RedisSaver(keyspace.url, prefix=keyspace.prefix)


def test_packets_that_share_a_document_take_the_room_of_one(saver: RedisSaver) -> None:
    graph = packets_graph(saver)
    config: RunnableConfig = {"configurable": {"thread_id": "packets"}}
    results: list[Any] = []

    grown = growth_bytes(saver, lambda: results.append(graph.invoke({"n": 1}, config)))

    assert results[0]["found"] == [MEGABYTE + number for number in range(200)]
    assert grown < 5 * MEGABYTE
    saver.delete_thread("packets")


def test_a_long_conversation_takes_room_in_proportion_to_what_is_said(saver: RedisSaver) -> None:
    messages = 10_000
    graph = talk_graph(saver, messages)
    config: RunnableConfig = {"configurable": {"thread_id": "talk"}, "recursion_limit": messages + 10}

    grown = growth_bytes(saver, lambda: graph.invoke({"n": 0}, config))

    assert grown <= 30 * MEGABYTE
    assert len(graph.get_state(config).values["messages"]) == messages
    saver.delete_thread("talk")


def test_what_a_deleted_thread_took_is_free_again(saver: RedisSaver) -> None:
    graph = packets_graph(saver, 20)
    graph.invoke({"n": 1}, {"configurable": {"thread_id": "first"}})
    saver.delete_thread("first")
    before = used_bytes(saver)

    graph.invoke({"n": 1}, {"configurable": {"thread_id": "again"}})
    saver.delete_thread("again")

    assert used_bytes(saver) - before < MEGABYTE
    assert [*scanned(saver.client, f"{saver.prefix}*")] == []
