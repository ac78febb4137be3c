"""The command line: ``phalanx run``, ``phalanx worker``, ``phalanx workers``."""


def main() -> None:
    """Run the command that ``sys.argv`` names, and exit with its code."""
    from phalanx.cli.signals import exit_on_interrupt, stop_on_signals

    stop_on_signals()
    with exit_on_interrupt():
        from phalanx.cli.app import app

        app()


__all__ = ["main"]
