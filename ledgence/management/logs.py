"""What the commands show of the log in a project whose LOGGING says nothing about it."""

import logging

LOGGERS = ("ledgence", "ledgence_worker")
FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"


def show_logs() -> None:
    """Write the log to stderr, from INFO on, unless the project has a handler for it; call it once, in a command.

    Django sets up its own loggers only, so without this a new project's worker would run and stop without a word.
    """
    for logger in map(logging.getLogger, LOGGERS):
        if logger.hasHandlers():
            continue
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter(FORMAT))
        logger.addHandler(handler)
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.INFO)
