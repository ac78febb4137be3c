"""Names that programs for LangGraph import, and that are not there yet: asking for one says so, and what to do."""

from collections.abc import Callable, Mapping


def hints(module: str, instead: Mapping[str, str]) -> Callable[[str], object]:
    """A module's ``__getattr__`` that says of some names that they are not there yet.

    Args:
        module: the module.
        instead: what to do for now, by name.
    """

    def getattr_(name: str) -> object:
        if name in instead:  # no AttributeError: "from … import …" would replace its text
            raise ImportError(f"{module}.{name} is not there yet; {instead[name]}", name=module)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return getattr_


MESSAGES: Mapping[str, str] = {
    "MessagesState": "declare a key with a reducer of your own: messages: Annotated[list, operator.add]",
    "add_messages": "use a reducer of your own, such as operator.add",
    "MessageGraph": "use StateGraph with a key for the messages",
}
