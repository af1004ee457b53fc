"""What tests and fuzz targets of all connections check."""

from __future__ import annotations

from typing import Any

from wirefmt.connection import Connection
from wirefmt.errors import LocalProtocolError


def check_idle(*connections: Connection) -> None:
    """Each connection wants bytes, and has neither bytes nor events that wait."""
    for connection in connections:
        assert connection.wants_read
        assert not connection.should_close
        assert (connection.undecided, connection.pending_bytes, connection.trailing_data) == (0, 0, b"")


def check_over(connection: Any) -> None:
    """After `Disconnected`, and once its last bytes are taken, a connection is to be closed and receives nothing."""
    assert connection.should_close
    try:
        connection.receive(b"", 0.0)
    except LocalProtocolError:
        return
    raise AssertionError("a connection that is over receives")
