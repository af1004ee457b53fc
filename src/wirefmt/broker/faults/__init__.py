"""Faults on purpose: a test sees what a client does when the broker or the network fails.

`FAULTS` is the table of all faults; docs/broker-faults.md describes their effect for each protocol.

A fault acts at one of two places. `FaultyConnection` lies between a connection and its driver, where the protocol's bytes pass:
it cuts, delays, holds, drops and changes them. `FaultyHandler` lies between the server and the broker, where messages pass: it
refuses and repeats them.
"""

from wirefmt.broker.faults.control import Active, Faults
from wirefmt.broker.faults.fault import FAULTS, Fault, Kind
from wirefmt.broker.faults.handler import FaultyHandler
from wirefmt.broker.faults.script import Script, Step, play, read_script, script_of

__all__ = [
    "FAULTS",
    "Active",
    "Fault",
    "Faults",
    "FaultyHandler",
    "Kind",
    "Script",
    "Step",
    "play",
    "read_script",
    "script_of",
]
