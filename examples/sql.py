"""SQL over a capture, by DuckDB (pip install duckdb). Batches pass through Arrow without a copy.

python examples/sql.py [CAPTURE]
"""

import sys
from pathlib import Path

import duckdb
import pyarrow as pa

from wirefmt import capture

SAMPLE = Path(__file__).resolve().parent.parent / "samples" / "mosquitto-paho-v5.pcap"

with capture.read(sys.argv[1] if len(sys.argv) > 1 else SAMPLE, payload=False) as reader:
    messages = pa.RecordBatchReader.from_stream(reader)  # DuckDB finds it by the name of the variable
    print(
        duckdb.sql("""
            SELECT destination, count(*) AS messages, sum(payload_size) AS bytes, max(qos) AS qos
            FROM messages
            WHERE kind = 'PUBLISH'
            GROUP BY destination
            ORDER BY messages DESC, destination
            LIMIT 10
        """)
    )
