"""The job of `python -m pyspark_wirefmt` as a file, for spark-submit. Needs the wheel where the driver runs."""

import sys

from pyspark_wirefmt.__main__ import main

sys.exit(main())
