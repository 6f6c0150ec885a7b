"""Many worker sessions in one process, which all wait for work over HTTP: what idle workers cost a server."""

import asyncio
import os
import sys
from uuid import uuid4

import httpx

from ledgence_worker.connect import TOKEN_VARIABLE
from ledgence_worker.http_replies import API_PATH
from ledgence_worker.limits import WAIT_SECONDS_MAX

ABOUT = {"name": "idle", "host": "localhost", "pid": os.getpid(), "version": "0", "concurrency": 1}

PAUSE_SECONDS = 0.1


async def wait_for_ever(client: httpx.AsyncClient) -> None:
    """Open a session and wait for work, again and again. Each request that waits has a connection of its own."""
    path = f"{API_PATH}/sessions/{uuid4()}"
    opened = await client.put(path, json=ABOUT | {"queues": ["bench"], "catalogue": []})
    opened.raise_for_status()
    sequence = 1
    while True:
        body = {"channel": 0, "sequence": sequence, "capacity": 1, "wait_seconds": WAIT_SECONDS_MAX}
        try:
            (await client.post(f"{path}/acquire", json=body)).raise_for_status()
        except httpx.TransportError:
            # The command is repeated, as a worker does.
            await asyncio.sleep(PAUSE_SECONDS)
            continue
        sequence += 1


async def main(url: str, count: int) -> None:
    """Let so many sessions wait, say so, and go on until this process is killed."""
    client = httpx.AsyncClient(
        base_url=url,
        headers={"Authorization": f"Bearer {os.environ[TOKEN_VARIABLE]}"},
        limits=httpx.Limits(max_connections=count, max_keepalive_connections=count),
        timeout=3 * WAIT_SECONDS_MAX,
        trust_env=False,
    )
    async with client, asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(wait_for_ever(client))
        # Each has been told by now that there is nothing, and is known to the server.
        await asyncio.sleep(5)
        print("waiting", flush=True)  # noqa: T201 - for the process that started this one


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
