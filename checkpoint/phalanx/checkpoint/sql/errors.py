"""What can go wrong between a saver and its database."""

from phalanx.errors import PhalanxError


class SaverUnavailableError(PhalanxError, ConnectionError):
    """A saver's database does not answer or refuses us, its connection was closed, or its file is locked, full or
    broken. Nothing of the operation was stored."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(where, reason)
        self.where = where
        self.reason = reason

    def __str__(self) -> str:
        return f"the checkpoints in {self.where} cannot be used ({self.reason}); is the database there, and still open?"


class SchemaVersionError(PhalanxError):
    """A later version of Phalanx has changed the tables in a way that this one does not know. Nothing was touched."""

    def __init__(self, where: str, found: int, known: int) -> None:
        super().__init__(where, found, known)
        self.where = where
        self.found = found
        self.known = known

    def __str__(self) -> str:
        return (
            f"the tables in {self.where} are at migration {self.found}, and this version of Phalanx knows "
            f"{self.known}; update Phalanx here, or give this saver a database of its own"
        )


class SyncCallOnLoopError(PhalanxError, RuntimeError):
    """A blocking method of an async saver was called on the event loop that it needs to do the work on."""

    def __init__(self, saver: str) -> None:
        super().__init__(saver)
        self.saver = saver

    def __str__(self) -> str:
        return (
            f"a blocking method of {self.saver} was called on the event loop that has to do the work, which would wait "
            f"for itself; await the method whose name starts with a (aget_tuple, aput, …), call the graph with "
            f"ainvoke(), or call the blocking method from another thread"
        )
