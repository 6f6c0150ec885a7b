"""Which frames of a traceback are the application's own."""

import pytest

from ledgence.frames import own_frames

OWN = '  File "/srv/shop/mail.py", line 4, in send\n    gateway.deliver(message)\n    ~~~~~~~~^^^^^^^\n'
PACKAGE = '  File "/srv/.venv/lib/python3.13/site-packages/gateway/client.py", line 9, in deliver\n    raise Refused\n'
LIBRARY = '  File "/usr/lib/python3.13/json/decoder.py", line 355, in raw_decode\n    raise JSONDecodeError\n'
DEBIAN = '  File "/usr/lib/python3/dist-packages/yaml/reader.py", line 3, in peek\n    x\n'
FROZEN = '  File "<frozen importlib._bootstrap>", line 1331, in _find\n'
WINDOWS = '  File "C:\\app\\Lib\\site-packages\\gateway\\client.py", line 9, in deliver\n    raise Refused\n'
HEAD = "Traceback (most recent call last):\n"
END = "gateway.Refused: no"


@pytest.mark.parametrize("foreign", [PACKAGE, LIBRARY, DEBIAN, FROZEN, WINDOWS])
def test_frames_of_packages_and_of_the_interpreter_are_left_out(foreign: str) -> None:
    assert own_frames(HEAD + OWN + foreign + END) == f"{HEAD}{OWN}  ...\n{END}"


def test_neighbours_that_are_left_out_leave_one_mark() -> None:
    assert own_frames(HEAD + PACKAGE + LIBRARY + OWN + PACKAGE + END) == f"{HEAD}  ...\n{OWN}  ...\n{END}"


def test_the_joints_between_exceptions_stay() -> None:
    joint = "\nThe above exception was the direct cause of the following exception:\n\n"
    chain = HEAD + PACKAGE + "KeyError: 1\n" + joint + HEAD + OWN + END
    assert own_frames(chain) == HEAD + "  ...\nKeyError: 1\n" + joint + HEAD + OWN + END


@pytest.mark.parametrize("text", ["", "no traceback", HEAD + END, HEAD + OWN + END, HEAD + PACKAGE + END])
def test_where_nothing_would_be_left_out_or_nothing_would_stay_there_is_one_traceback(text: str) -> None:
    assert own_frames(text) is None


def test_a_long_text_is_read_once() -> None:
    text = HEAD + (OWN + PACKAGE) * 2_000 + END
    shortened = own_frames(text)
    assert shortened is not None and shortened.count("...") == 2_000
