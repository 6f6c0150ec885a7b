"""Fixtures of the clients' tests: a real server, one that spoils its answers, and both clients alike."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from typing import Any

import pytest

from ledgence.tokens import Role, issue
from ledgence_worker.client import AsyncClient, Client
from tests.client.faults import FaultyServer
from tests.http.conftest import server as server
from tests.http.servers import Server
from tests.ledger.actors import USING


class Blocking:
    """An AsyncClient whose methods are called as those of Client are, on a loop of its own."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._runner = asyncio.Runner()
        self._client = self._runner.run(_made(*arguments, **options))

    # Any: it has whatever the client has.
    def __getattr__(self, name: str) -> Any:
        return partial(self._call, getattr(self._client, name))

    def __repr__(self) -> str:
        return repr(self._client)

    def close(self) -> None:
        self._runner.run(self._client.close())
        self._runner.close()

    def _call(self, method: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        answer = method(*arguments, **options)
        if isinstance(answer, AsyncIterator):
            return self._runner.run(_collected(answer))
        return self._runner.run(_awaited(answer))


async def _made(*arguments: Any, **options: Any) -> AsyncClient:
    return AsyncClient(*arguments, **options)


async def _collected(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]


async def _awaited(answer: Awaitable[Any]) -> Any:
    return await answer


type Connect = Callable[..., Any]


@pytest.fixture
def faulty(server: Server) -> Iterator[FaultyServer]:
    """A server before the real one that spoils its answers."""
    made = FaultyServer(server.port)
    yield made
    made.close()


@pytest.fixture
def token(transactional_db: None) -> str:
    """A token that may do everything that applications and operators do."""
    return issue(name="tests", roles=[Role.SUBMIT, Role.OPERATE], tenant="default", namespace="default", using=USING)[1]


@pytest.fixture(params=[Client, Blocking], ids=["sync", "async"])
def connect(request: pytest.FixtureRequest, token: str) -> Iterator[Connect]:
    """Makes clients of either kind: ``connect(url, **options)``."""
    made: list[Any] = []

    def connect(url: str, **options: Any) -> Any:
        made.append(request.param(url, options.pop("token", token), **options))
        return made[-1]

    yield connect
    for client in made:
        client.close()
