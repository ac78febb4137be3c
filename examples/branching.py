"""Branches: an order is checked from several sides at once, and what the checks say decides where it goes.

`which_checks` answers with a list, so only the checks an order needs are run, side by side. Customs take a superstep
more than the others; `decide` is deferred, so it runs once, when every branch has come to its end::

    START -> receive -> check_stock ----------------> decide -> ship | ask | refuse -> END
                     -> check_credit ---------------->
                     -> declare -> pass_customs ----->

    python examples/branching.py
    python examples/branching.py --amount 40 --country NO
"""

import argparse
import operator
from typing import Annotated, Literal, TypedDict

from phalanx.graph import END, START, StateGraph

STOCK = {"anchor": 3, "rope": 120}
CREDIT = 50
HOME = "SE"
FORBIDDEN = {("anchor", "NO")}


class Order(TypedDict, total=False):
    """What is ordered: one rope to a customer at home unless given."""

    item: str
    amount: int
    country: str


class Answer(TypedDict):
    """What became of the order, and what the checks had to say."""

    answer: str
    findings: Annotated[list[str], operator.add]


class State(Answer):
    """The order without gaps, the answer, and what customs are told."""

    item: str
    amount: int
    country: str
    declaration: str


def receive(state: Order) -> dict[str, object]:
    """Fill in what the order leaves open."""
    return {"item": state.get("item", "rope"), "amount": state.get("amount", 1), "country": state.get("country", HOME)}


def which_checks(state: State) -> list[str]:
    """Choose the checks: stock always, credit for more than one, customs for orders from abroad."""
    checks = ["check_stock"]
    if state["amount"] > 1:
        checks.append("check_credit")
    if state["country"] != HOME:
        checks.append("declare")
    return checks


def check_stock(state: State) -> dict[str, object]:
    """Is there enough of it?"""
    there = STOCK.get(state["item"], 0)
    verdict = "ok" if there >= state["amount"] else "short"
    return {"findings": [f"stock {verdict}: {there} of {state['item']}"]}


def check_credit(state: State) -> dict[str, object]:
    """May the customer order so much?"""
    verdict = "ok" if state["amount"] <= CREDIT else "short"
    return {"findings": [f"credit {verdict}: at most {CREDIT}"]}


def declare(state: State) -> dict[str, object]:
    """Write the declaration for customs."""
    return {"declaration": f"{state['amount']} x {state['item']}"}


def pass_customs(state: State) -> dict[str, object]:
    """Is it allowed into the country?"""
    verdict = "forbidden" if (state["item"], state["country"]) in FORBIDDEN else "ok"
    return {"findings": [f"customs {verdict}: {state['declaration']} to {state['country']}"]}


def decide(state: State) -> dict[str, object]:
    """Bring the findings into an order of their own."""
    return {"findings": [f"{len(state['findings'])} checks"]}


def verdict_of(state: State) -> Literal["ship", "ask", "refuse"]:
    """Where the order goes."""
    verdicts = {finding.partition(":")[0].partition(" ")[2] for finding in state["findings"]}
    if "forbidden" in verdicts:
        return "refuse"
    return "ask" if "short" in verdicts else "ship"


def ship(state: State) -> dict[str, object]:
    """Everything is fine."""
    return {"answer": f"{state['amount']} x {state['item']} is on its way to {state['country']}"}


def ask(state: State) -> dict[str, object]:
    """Something is short."""
    return {"answer": f"would fewer than {state['amount']} x {state['item']} do?"}


def refuse(state: State) -> dict[str, object]:
    """It cannot be done."""
    return {"answer": f"{state['item']} cannot be sent to {state['country']}"}


builder = StateGraph(State, input_schema=Order, output_schema=Answer)
builder.add_node("receive", receive)
builder.add_node("check_stock", check_stock)
builder.add_node("check_credit", check_credit)
builder.add_node("declare", declare)
builder.add_node("pass_customs", pass_customs)
builder.add_node("decide", decide, defer=True)
builder.add_node("ship", ship)
builder.add_node("ask", ask)
builder.add_node("refuse", refuse)
builder.add_edge(START, "receive")
builder.add_conditional_edges("receive", which_checks, ["check_stock", "check_credit", "declare"])
builder.add_edge("declare", "pass_customs")
builder.add_edge("check_stock", "decide")
builder.add_edge("check_credit", "decide")
builder.add_edge("pass_customs", "decide")
builder.add_conditional_edges("decide", verdict_of)
builder.add_edge("ship", END)
builder.add_edge("ask", END)
builder.add_edge("refuse", END)
graph = builder.compile(name="branching")


def main() -> None:
    """Place an order from the command line."""
    parser = argparse.ArgumentParser(description="Check an order from several sides at once.")
    parser.add_argument("--item", choices=sorted(STOCK), default="rope")
    parser.add_argument("--amount", type=int, default=1)
    parser.add_argument("--country", default=HOME)
    options = parser.parse_args()
    result = graph.invoke({"item": options.item, "amount": options.amount, "country": options.country})
    print(result["answer"])
    for finding in result["findings"]:
        print(f"  {finding}")


if __name__ == "__main__":
    main()
