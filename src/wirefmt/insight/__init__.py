"""From messages to answers: which operations succeeded, and why connections ended.

`wirefmt.capture.read(source, table="operations")` reads these tables from captures. `Tables` makes them of the message table,
wherever that comes from.

>>> from wirefmt import insight
>>> insight.payload_hash(b"21.5")
-7570936262542535667
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wirefmt.insight._engine import Insight as Insight, payload_hash as payload_hash
from wirefmt.loading import lazy

if TYPE_CHECKING:
    from wirefmt.insight.tables import Tables as Tables

__getattr__, __dir__ = lazy(__name__, {"wirefmt.insight.tables": "Tables"})
