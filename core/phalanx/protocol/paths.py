"""Where a task stands in the order of its superstep, as it is stored."""


def path_text(path: tuple[str | int, ...]) -> str:
    """A task's path as text; texts sort as the paths do."""
    return f"~{', '.join(f'{part:010d}' if isinstance(part, int) else part for part in path)}" if path else ""
