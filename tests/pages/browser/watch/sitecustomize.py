"""Where this folder is on PYTHONPATH, each Python notes in a file the machines that it connects to, but its own."""

import os
import sys

FILE = "TFM_CONNECTIONS"  # the variable that names it
OWN = ("127.", "::1", "0.0.0.0", "localhost")


def note(event: str, arguments: tuple) -> None:
    """Hears of each connection before it is made, whoever asks for it."""
    if event in ("socket.connect", "socket.sendto"):
        address = arguments[1]
        if isinstance(address, tuple) and not str(address[0]).startswith(OWN):  # else it is a file of this machine
            with open(os.environ[FILE], "a") as file:
                print(event, *address[:2], *sys.argv, file=file)


sys.addaudithook(note)
