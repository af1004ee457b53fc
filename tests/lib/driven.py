"""What tests and fuzz targets of all connections check."""

from __future__ import annotations

from typing import Any

from wirefmt.errors import LocalProtocolError


def check_over(connection: Any) -> None:
    """After `Disconnected`, and once its last bytes are taken, a connection is to be closed and receives nothing."""
    assert connection.should_close
    try:
        connection.receive(b"", 0.0)
    except LocalProtocolError:
        return
    raise AssertionError("a connection that is over receives")
