"""Why a wait is over, and how those who wait are told."""

import asyncio
from collections.abc import Iterable
from enum import Enum, auto


class News(Enum):
    """Why a wait is over."""

    # There may be something: try again.
    CHANGED = auto()
    # The time is over: the last try follows.
    OVER = auto()
    # The time is over, and the empty answer is recorded already.
    RECORDED = auto()


def tell(waiting: Iterable[asyncio.Future[News]], news: News) -> None:
    """Tell all of them who do not know yet."""
    for future in list(waiting):
        if not future.done():
            future.set_result(news)
