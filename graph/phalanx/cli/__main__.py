"""``python -m phalanx.cli``: the same as ``phalanx``."""

from phalanx.cli import main

if __name__ == "__main__":
    main()
