"""Programs that attack the worker through what they return, and through how they load."""

import os
from pathlib import Path
from typing import Any

import ledgence
from ledgence import Context
from tests.faults.zoo.programs import wait_for_gate, zoo

#: Names a file: while it exists, a process that loads these programs finds one more, as after a deployment.
DEPLOYED = "LEDGENCE_CHILD_ATTACK_DEPLOYED"
#: Names a file: while it exists, these programs do not load.
BROKEN = "LEDGENCE_CHILD_ATTACK_BROKEN"

if Path(os.environ.get(BROKEN, "/nonexistent")).exists():
    raise ImportError("the deployment is broken")

if Path(os.environ.get(DEPLOYED, "/nonexistent")).exists():

    @ledgence.program("deployed", version="1")
    def deployed(event: Any) -> None:
        """Do nothing: it is enough that it is there."""


@zoo("return-quotes")
def return_quotes(data: Any, context: Context) -> Any:
    """Wait for the gate, then return the largest result, made of what every notation doubles."""
    wait_for_gate(data)
    return '"' * (4 * 1024 * 1024 - 1)


@zoo("flood")
def flood(data: Any, context: Context) -> Any:
    """Print as much as anybody takes, until the gate is open."""
    block = b"x" * 1023 + b"\n"
    while not Path(data).exists():
        os.write(1, block * 64)
    return context.number
