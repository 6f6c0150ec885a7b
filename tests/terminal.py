"""How tests call commands: as a terminal would, with what they write to each stream."""

import pytest
from django.core.management import call_command


class Terminal:
    """Calls one command, and keeps what it wrote to the standard error."""

    def __init__(self, command: str, capsys: pytest.CaptureFixture[str]) -> None:
        self._command, self._capsys = command, capsys
        self.err = ""

    def __call__(self, *arguments: str) -> str:
        """Return the standard output."""
        self._capsys.readouterr()
        try:
            call_command(self._command, *arguments)
        finally:
            written = self._capsys.readouterr()
            self.err = written.err
            self.out = written.out
        return written.out
