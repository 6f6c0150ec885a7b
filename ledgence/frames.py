"""The frames of a traceback that are the application's own, among those of what it calls."""

import re

FRAME = re.compile(r'^ +File "(?P<path>[^"]*)", line (?P<line>\d+)')
#: Where the interpreter and installed packages lie; frozen modules have no path.
FOREIGN = re.compile(r"(^|[/\\])(site-packages|dist-packages|lib[/\\]python\d[^/\\]*)[/\\]|^<frozen ", re.IGNORECASE)
LEFT_OUT = "  ..."


def own_frames(traceback: str) -> str | None:
    """Return a traceback without the frames of installed packages; None where that is nothing else, or nothing.

    Whatever is no frame stays: the headings, the exceptions, the joints between them.
    """
    kept: list[str] = []
    is_foreign = has_own = has_foreign = False
    for line in traceback.splitlines():
        if frame := FRAME.match(line):
            is_foreign = FOREIGN.search(frame["path"]) is not None
            has_own, has_foreign = has_own or not is_foreign, has_foreign or is_foreign
            if is_foreign and (not kept or kept[-1] != LEFT_OUT):
                kept.append(LEFT_OUT)
        elif not line.startswith("    "):
            is_foreign = False
        if not is_foreign:
            kept.append(line)
    return "\n".join(kept) if has_own and has_foreign else None


def last_own_place(traceback: str) -> str:
    """Return where the application's own code was left last: its file and line; empty where it was nowhere."""
    frames = [frame for line in traceback.splitlines() if (frame := FRAME.match(line))]
    own = next((frame for frame in reversed(frames) if not FOREIGN.search(frame["path"])), None)
    return f"{own['path']}:{own['line']}" if own else ""
