"""Plays a piece of a page in a project's folder: its commands in a shell, its Python in one interactive session.

Run by its path, in the folder, with the steps as JSON on stdin. It stands alone: nothing of the checkout's tests is
imported into the project that it plays in. Exits 1 when a command fails or an answer is another than the page's.
"""

import doctest
import json
import os
import subprocess
import sys
from typing import Any

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def main() -> int:
    sys.path[0] = os.getcwd()
    session: dict[str, Any] = {"__name__": "__console__"}
    is_set_up = False
    for language, text, place in json.load(sys.stdin):
        if language == "sh":
            ended = subprocess.run(["sh", "-ec", text], check=False, stdout=sys.stderr)  # noqa: S603, S607
            if ended.returncode:
                return _fail(f"{place}: exit status {ended.returncode} of\n{text}")
            continue
        if not is_set_up:
            import django

            django.setup()
            is_set_up = True
        example = doctest.DocTestParser().get_doctest(text, session, place, None, None)
        # The next block goes on with what this one leaves.
        results = doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(example, clear_globs=False)
        session = example.globs
        if results.failed:
            return 1
    return 0


def _fail(message: str) -> int:
    sys.stderr.write(message)
    return 1


if __name__ == "__main__":
    sys.exit(main())
