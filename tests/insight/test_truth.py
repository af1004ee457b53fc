"""What connections and operations say of real brokers' captures is what the scripts did that made them."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

from lib.truth import NAMES, claims_of, connection_faults, operation_faults, tables_of

#: Claims about what is not in the frames: the server's kernel held the third PUBLISH back, since nobody answered.
NOT_ON_THE_WIRE = {"mqtt-vanished": "46066 {'kind': 'deliver'}: 2 rows, not 3"}


@pytest.mark.parametrize("name", NAMES)
def test_connections_and_operations(name: str) -> None:
    tables = tables_of(name, "connections", "operations")
    connections, operations = claims_of(name, "connection"), claims_of(name, "operation")
    faults = [
        *connection_faults(connections, tables["connections"]),
        *operation_faults(operations, tables["operations"]),
    ]
    assert connections or operations
    assert faults == [NOT_ON_THE_WIRE[name]] if name in NOT_ON_THE_WIRE else not faults, "\n".join(faults)


@pytest.mark.parametrize("name", NAMES)
def test_no_row_is_as_the_truth_denies(name: str) -> None:
    tables = tables_of(name, "connections")
    from lib.truth import fits

    for claim in claims_of(name, "none"):
        if claim["table"] in tables:
            assert not [row for row in tables[claim["table"]] if fits(claim["where"], row)]
