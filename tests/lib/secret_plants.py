"""A secret planted in every place of every protocol that the rule of wirefmt/spec/secrets.py names.

`plants` of tests/NAME/examples.py makes the messages by constructors from the tables of the specification, so a new method,
packet or field is planted without a line there. A protocol without credentials has no `plants`.
"""

from __future__ import annotations

from lib.planted_secret import CLIENT
from lib.protocols import EXAMPLES, PORTS
from lib.wire import Tcp, pcap

OBJECTS = {name: module.plants for name, module in EXAMPLES.items() if hasattr(module, "plants")}


def turns(protocol: str) -> list[tuple[int, bytes]]:
    """(side, octets) of a connection on which all that is planted is sent."""
    said: list[tuple[int, bytes]] = []
    before = getattr(EXAMPLES[protocol], "before", lambda message: b"")
    for side, message in OBJECTS[protocol]():
        if first := before(message):
            said.append((CLIENT, first))
        said.append((side, message.encode()))
    return said


def planted_capture(protocol: str) -> bytes:
    tcp = Tcp(port=PORTS[protocol], client_port=40000 + len(protocol))
    frames = tcp.open()
    for side, octets in turns(protocol):
        frames += tcp.send(side, octets)
    return pcap(frames + tcp.close())
