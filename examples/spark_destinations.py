"""Captures as a Spark DataFrame (pip install 'wirefmt[spark]', and Java 17 or later).

python examples/spark_destinations.py [CAPTURES]
"""

import sys
from pathlib import Path

from pyspark.sql import functions as f

from pyspark_wirefmt import local_session

SAMPLES = Path(__file__).resolve().parent.parent / "samples"

spark = local_session(cores=2)
messages = (
    spark.read.format("wirefmt")
    .schema("protocol string, version string, kind string, destination string, payload_size bigint")
    .load(sys.argv[1] if len(sys.argv) > 1 else f"{SAMPLES}/*.pcap")
)
(
    messages.where("kind = 'PUBLISH'")
    .groupBy("version", "destination")
    .agg(f.count("*").alias("messages"), f.sum("payload_size").alias("bytes"))
    .orderBy(f.desc("messages"), "destination", "version")
    .show(10, truncate=40)
)
spark.stop()
