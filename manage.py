#!/usr/bin/env python
"""Django's command line for the project of this checkout."""

import os
import sys
from pathlib import Path


def main() -> None:
    """Run one management command."""
    # The execution side is a distribution of its own; this line finds it in a checkout that is not installed.
    sys.path.insert(1, str(Path(__file__).resolve().parent / "workers"))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ledgence_project.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
