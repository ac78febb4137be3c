"""The names a graph's author writes: the virtual nodes, and tags that other tools give a meaning."""

from typing import Final

START: Final = "__start__"
"""The virtual node before the first: an edge from it makes an entry point."""

END: Final = "__end__"
"""The virtual node after the last: an edge to it ends that path."""

TAG_HIDDEN: Final = "langsmith:hidden"
"""What marks a step that tracing leaves out. The engine itself does not look at tags."""

TAG_NOSTREAM: Final = "nostream"
"""What marks a chat model whose tokens are not streamed. The engine itself does not look at tags."""

__all__ = ["END", "START", "TAG_HIDDEN", "TAG_NOSTREAM"]
