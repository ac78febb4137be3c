"""Packets: one task each, with exactly their argument as input."""

import dataclasses
from typing import Any

import pytest
from tests.behaviour.drivers import Drive, OnCluster, compiled
from tests.behaviour.states import Update, Words, fan_out, says

from phalanx.constants import END, START
from phalanx.errors import InvalidUpdateError, UnknownNodeError
from phalanx.graph import StateGraph
from phalanx.testing.in_process import InProcessCluster
from phalanx.types import Command, Send


def sending(*packets: Send | str) -> StateGraph[Words]:
    """``plan`` sends the packets; ``work`` notes what it got."""

    def path(_: Words) -> list[Send | str]:
        return list(packets)

    def work(arg: object) -> Update:
        return {"words": [repr(arg)]}

    builder = StateGraph(Words)
    builder.add_node("plan", says("plan"))
    builder.add_node("work", work)
    builder.add_edge(START, "plan")
    builder.add_conditional_edges("plan", path)
    return builder


@pytest.mark.rule("packet-1")
@pytest.mark.parametrize("arg", [{"words": ["own"]}, {}, None, 5, "text", [1, (2, 3)], {1: {2}}], ids=repr)
def test_a_packet_brings_exactly_its_argument(drive: Drive, arg: object) -> None:
    """It is not merged with the state, and need not look like it."""
    assert drive.invoke(compiled(sending(Send("work", arg))), {"last": "x"})["words"] == ["plan", repr(arg)]


@pytest.mark.rule("step-2")
def test_results_come_in_the_order_of_the_packets(drive: Drive) -> None:
    packets = [Send("work", number) for number in range(25)]

    assert drive.invoke(compiled(sending(*packets)), {})["words"] == ["plan", *map(str, range(25))]


@pytest.mark.rule("packet-2")
def test_a_node_can_run_for_packets_and_for_an_edge_in_the_same_step(drive: Drive) -> None:
    """The task of the edge comes first in the order of writes."""
    graph = compiled(sending(Send("work", 1), "work", Send("work", 2)))
    words = drive.invoke(graph, {})["words"]

    assert [words[0], *words[2:]] == ["plan", "1", "2"]
    assert "'count': 0" in words[1]


@pytest.mark.rule("packet-3")
def test_what_follows_a_fan_out_runs_once(drive: Drive) -> None:
    builder = sending(*[Send("work", number) for number in range(10)])
    builder.add_node("report", says("report"))
    builder.add_edge("work", "report")

    assert drive.invoke(compiled(builder), {})["words"][-2:] == ["9", "report"]


@pytest.mark.rule("defer-1")
def test_a_deferred_node_does_not_wait_for_packets(drive: Drive) -> None:
    """Packets trigger no node by a channel, so after a step that made only packets nothing counts as left."""

    def split(arg: int) -> Command[str]:
        return Command(update={"words": [str(arg)]}, goto=[Send("split", arg - 1)] if arg else [])

    def first(_: Words) -> Send:
        return Send("split", 2)

    builder = StateGraph(Words)
    builder.add_node("split", split)
    builder.add_node("done", says("done"), defer=True)
    builder.add_edge("split", "done")
    builder.add_conditional_edges(START, first)

    assert drive.invoke(compiled(builder), {})["words"] == ["2", "done", "1", "done", "0", "done"]


def test_fan_outs_can_be_nested(drive: Drive) -> None:
    def split(arg: dict[str, Any]) -> Command[str]:
        depth, name = arg["depth"], arg["name"]
        if depth == 0:
            return Command(update={"words": [name]})
        children = [Send("split", {"depth": depth - 1, "name": f"{name}{part}"}) for part in range(3)]
        return Command(goto=children)

    def first(_: Words) -> list[Send]:
        return [Send("split", {"depth": 3, "name": ""})]

    builder = StateGraph(Words)
    builder.add_node("split", split)
    builder.add_conditional_edges(START, first)
    words = drive.invoke(compiled(builder), {})["words"]

    assert words == [f"{a}{b}{c}" for a in range(3) for b in range(3) for c in range(3)]


def test_a_thousand_packets_are_joined(drive: Drive) -> None:
    def adds(arg: int) -> Update:
        return {"count": arg}

    def plan(_: Words) -> list[Send]:
        return [Send("adds", number) for number in range(1000)]

    builder = StateGraph(Words)
    builder.add_node("adds", adds)
    builder.add_conditional_edges(START, plan)

    assert drive.invoke(compiled(builder), {})["count"] == sum(range(1000))


@dataclasses.dataclass
class Job:
    name: str
    parts: list[int]


@pytest.mark.rule("packet-1")
def test_an_argument_may_be_an_instance_of_a_class_of_the_state(drive: Drive) -> None:
    def work(job: Job) -> Update:
        return {"words": [job.name, str(job.parts)]}

    def plan(_: Words) -> list[Send]:
        return [Send("work", Job("j", [1]))]

    builder = StateGraph(Words)
    builder.add_node("work", work)
    builder.add_conditional_edges(START, plan)

    assert drive.invoke(compiled(builder), {})["words"] == ["j", "[1]"]


def test_a_path_of_a_packet_s_node_reads_the_state(drive: Drive) -> None:
    def path(state: Words) -> str:
        return "seen" if state["words"][0] == "plan" else END

    builder = sending(Send("work", {"words": "of the packet"}))
    builder.add_node("seen", says("seen"))
    builder.add_conditional_edges("work", path)

    assert drive.invoke(compiled(builder), {})["words"][-1] == "seen"


@pytest.mark.rule("packet-4")
@pytest.mark.ours_only("there, the packet is logged and dropped")
def test_a_packet_for_nobody_is_an_error_that_names_it_and_who_there_is(drive: Drive) -> None:
    with pytest.raises(UnknownNodeError, match=r"node 'plan' sent a packet to 'wrok'.*its nodes are: plan, work"):
        drive.invoke(compiled(sending(Send("wrok", 1))), {})


@pytest.mark.rule("packet-5")
def test_a_packet_for_the_end_is_an_error(drive: Drive) -> None:
    with pytest.raises(InvalidUpdateError, match="Cannot send a packet to the END node"):
        drive.invoke(compiled(sending(Send(END, 1))), {})


@pytest.mark.rule("step-2")
def test_packets_of_several_nodes_run_in_the_order_of_their_senders(drive: Drive) -> None:
    def sends(name: str) -> Any:
        def send(_: Words) -> Command[str]:
            return Command(goto=[Send("work", f"{name}1"), Send("work", f"{name}2")])

        return send

    def work(arg: str) -> Update:
        return {"words": [arg]}

    builder = fan_out()
    for name in ("b", "a"):
        builder.add_node(name, sends(name))
        builder.add_edge(START, name)
    builder.add_node("work", work)

    assert drive.invoke(compiled(builder), {})["words"] == ["a1", "a2", "b1", "b2"]


def test_packets_that_share_a_document_store_it_once(cluster: InProcessCluster) -> None:
    """200 packets with one document of 1 MB as their argument."""
    document = "x" * (1 << 20)
    client: Any = cluster.saver.client
    most: list[int] = []

    def used() -> int:
        return int(client.info("memory")["used_memory"])

    def plan(_: Words) -> list[Send]:
        return [Send("work", document) for _ in range(200)]

    def work(arg: str) -> Update:
        most.append(used())
        return {"count": len(arg)}

    builder = StateGraph(Words)
    builder.add_node("work", work)
    builder.add_conditional_edges(START, plan)
    before = used()

    assert OnCluster(cluster).invoke(compiled(builder), {})["count"] == 200 * len(document)
    assert max(most) - before < 5 << 20
