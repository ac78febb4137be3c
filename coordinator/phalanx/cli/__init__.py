"""The command line: ``phalanx run``, ``phalanx worker``, ``phalanx workers``."""


def main() -> None:
    """Run the command that ``sys.argv`` names, and exit with its code."""
    from phalanx.cli.app import app

    app()


__all__ = ["main"]
