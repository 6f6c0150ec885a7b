"""Many worker sessions in one process, which all wait for work over HTTP: what idle workers cost a server."""

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from urllib.parse import urlsplit
from uuid import uuid4

from ledgence_worker.connect import TOKEN_VARIABLE
from ledgence_worker.http_replies import API_PATH

WAIT_SECONDS = 20.0


class Idler:
    """One session on one connection."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._path = f"{API_PATH}/sessions/{uuid4()}"

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        about = {"name": "idle", "host": "localhost", "pid": os.getpid(), "version": "0", "concurrency": 1}
        await self._exchange("PUT", "", {**about, "queues": ["bench"], "catalogue": [], "exclude_queues": []})

    async def wait_for_ever(self) -> None:
        sequence = 0
        while True:
            sequence += 1
            body = {"channel": 0, "sequence": sequence, "capacity": 1, "wait_seconds": WAIT_SECONDS}
            await self._exchange("POST", "/acquire", body)

    async def _exchange(self, method: str, path: str, body: Mapping[str, object]) -> None:
        content = json.dumps(body)
        self._writer.write(
            f"{method} {self._path}{path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {os.environ[TOKEN_VARIABLE]}\r\nContent-Length: {len(content)}\r\n\r\n"
            f"{content}".encode()
        )
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        if " 200 " not in head.partition("\r\n")[0]:
            raise RuntimeError(head)
        length = next(line for line in head.lower().split("\r\n") if line.startswith("content-length:"))
        await self._reader.readexactly(int(length.partition(":")[2]))


async def main(url: str, count: int) -> None:
    """Open so many sessions, say so, and let them wait until this process is killed."""
    address = urlsplit(url)
    idlers = [Idler(address.hostname or "", address.port or 80) for _ in range(count)]
    async with asyncio.TaskGroup() as group:
        for idler in idlers:
            await idler.open()
            group.create_task(idler.wait_for_ever())
        # Each has been told by now that there is nothing, and is known to the server.
        await asyncio.sleep(3)
        print("waiting", flush=True)  # noqa: T201 - for the process that started this one


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
