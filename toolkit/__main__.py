"""``python -m toolkit``: the same as the command ``toolkit``."""

from __future__ import annotations

from toolkit.cli import main

if __name__ == "__main__":
    main()
