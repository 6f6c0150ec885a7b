"""A project's addresses, as views make them: whoever imports them imports programs. A worker must not."""

import tests.faults.zoo.programs  # noqa: F401 - the import is what it is about

raise ImportError("The project's addresses were imported.")
