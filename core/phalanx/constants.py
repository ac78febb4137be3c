"""The names a graph's author writes: the virtual nodes and the tags the engine understands."""

from typing import Final

START: Final = "__start__"
"""The virtual node before the first: an edge from it makes an entry point."""

END: Final = "__end__"
"""The virtual node after the last: an edge to it ends that path."""

TAG_HIDDEN: Final = "langsmith:hidden"
"""A node with this tag is left out of streams and traces."""

TAG_NOSTREAM: Final = "nostream"
"""A chat model with this tag is left out of ``messages`` streams."""

__all__ = ["END", "START", "TAG_HIDDEN", "TAG_NOSTREAM"]
