# NSQ: what other modules may use of the codec.
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from wirefmt._core cimport CText

# GENERATED from wirefmt/nsq/spec.py and wirefmt/nsq/columns.py
include "table.pxi"
include "columns.pxi"
