"""Plan and execute: a robot plans its way, takes a step at a time, and plans anew when the world is not as it thought.

`make_plan` finds the shortest way on the robot's map, which shows no walls at first. `take_step` tries the first step
of the plan, and may find a wall. `plan_again` draws the wall in and finds another way, or goes on, or stops::

    START -> make_plan -> take_step -> plan_again -> END
                          take_step <- plan_again

The planner is a plain function (a breadth-first search); in the tutorials that made this shape known it is a model. The
loop, and what is kept between its rounds, are the same.

    python examples/plan_and_execute.py
"""

import operator
from collections import deque
from typing import Annotated, Literal, TypedDict

from phalanx.graph import END, START, StateGraph
from phalanx.types import Command

WORLD = """
S . . .
# # # .
. . . .
. # # #
. . . G
"""
STEPS = {"east": (1, 0), "south": (0, 1), "west": (-1, 0), "north": (0, -1)}

Place = tuple[int, int]


class Request(TypedDict, total=False):
    """The world: `S` the start, `G` the goal, `#` walls that the robot finds out about; `WORLD` unless given."""

    world: str


class Report(TypedDict):
    """How it ended, what was done, and how often a plan was made."""

    answer: str
    done: Annotated[list[str], operator.add]
    plans: Annotated[int, operator.add]


class State(Report):
    """The report, the world, and what the robot knows and intends."""

    world: str
    here: Place
    goal: Place
    plan: list[str]
    walls: Annotated[list[Place], operator.add]


def make_plan(state: Request) -> dict[str, object]:
    """Find where to start and where to go, and plan the way as if there were no walls."""
    rows = rows_of(state.get("world", WORLD))
    start, goal = find(rows, "S"), find(rows, "G")
    way = shortest_way(rows, start, goal, [])
    return {"world": "\n".join(" ".join(row) for row in rows), "here": start, "goal": goal, "plan": way, "plans": 1}


def take_step(state: State) -> dict[str, object]:
    """Try the first step of the plan."""
    rows = rows_of(state["world"])
    step, *rest = state["plan"]
    x, y = moved(state["here"], step)
    if rows[y][x] == "#":
        return {"done": [f"{step}: a wall"], "walls": [(x, y)], "plan": []}
    return {"done": [step], "here": (x, y), "plan": rest}


def plan_again(state: State) -> Command[Literal["take_step", "__end__"]]:
    """Stop at the goal; go on with the plan; or, after a wall, make another."""
    if state["here"] == state["goal"]:
        return Command(update={"answer": f"there after {len(state['done'])} steps"}, goto=END)
    if state["plan"]:
        return Command(goto="take_step")
    way = shortest_way(rows_of(state["world"]), state["here"], state["goal"], state["walls"])
    if not way:
        return Command(update={"answer": "there is no way", "plans": 1}, goto=END)
    return Command(update={"plan": way, "plans": 1}, goto="take_step")


builder = StateGraph(State, input_schema=Request, output_schema=Report)
builder.add_node("make_plan", make_plan)
builder.add_node("take_step", take_step)
builder.add_node("plan_again", plan_again)
builder.add_edge(START, "make_plan")
builder.add_edge("make_plan", "take_step")
builder.add_edge("take_step", "plan_again")
graph = builder.compile(name="plan_and_execute")


# --- The world --------------------------------------------------------------------------------------------------------


def rows_of(world: str) -> list[list[str]]:
    """The cells of the world, row by row."""
    return [line.split() for line in world.strip().splitlines()]


def find(rows: list[list[str]], mark: str) -> Place:
    """Where the mark is."""
    for y, row in enumerate(rows):
        if mark in row:
            return row.index(mark), y
    raise ValueError(f"the world has no {mark}")


def moved(place: Place, step: str) -> Place:
    """The place one step on."""
    dx, dy = STEPS[step]
    return place[0] + dx, place[1] + dy


def shortest_way(rows: list[list[str]], start: Place, goal: Place, walls: list[Place]) -> list[str]:
    """The steps from start to goal around the walls that are known: nothing if there is no way."""
    inside = {(x, y) for y, row in enumerate(rows) for x, _ in enumerate(row)}.difference(walls)
    ways: dict[Place, list[str]] = {start: []}
    queue = deque([start])
    while queue:
        place = queue.popleft()
        if place == goal:
            return ways[place]
        for step in STEPS:
            there = moved(place, step)
            if there in inside and there not in ways:
                ways[there] = [*ways[place], step]
                queue.append(there)
    return []


def main() -> None:
    """Walk through the world."""
    result = graph.invoke({})
    for number, step in enumerate(result["done"], 1):
        print(f"{number:2} {step}")
    print(f"{result['answer']}, with {result['plans']} plans")


if __name__ == "__main__":
    main()
