# Results of parsers: statuses, faults, accepted violations; and the options of all parsers. Header-only, nogil.
from libc.stdint cimport int8_t, int64_t, uint8_t, uint32_t


cdef enum Status:
    OK = 0
    NEED_DATA = 1       # of frame_size() only
    TRUNCATED = 2       # a field does not fit its bound
    MALFORMED = 3       # the octets violate a rule
    LIMIT = 4           # a limit of the caller would be exceeded
    UNSUPPORTED = 5     # well formed, but of a version that this decoder does not support


cdef struct Fault:
    int status          # a Status
    int check           # row in the protocol's CHECKS table; 0: none
    int field           # row in the protocol's FIELDS table; 0: the frame itself
    int index           # element of a repeated field; -1: not repeated
    int limited_by      # FIELDS row of the field that set the limit; 0: the frame
    int kind            # type of the frame, as its protocol numbers them; 0: not known
    int version         # protocol version it was read as; 0: not known
    int64_t offset      # octets from the start of the frame
    int64_t need        # octets (or count) required
    int64_t have        # octets (or count) available


cdef struct Violation:      # LAX accepted it
    int check, field, index     # as of a Fault
    int64_t offset


cdef struct Notes:          # the violations of one frame or message that LAX accepted
    int count
    int check               # of the first: a CHECKS row; 0: there was none
    int64_t offset          # of the first


cdef struct CommonOptions:  # the first member of every protocol's options; set it to zero first
    uint8_t strict          # 1 STRICT, 0 LAX
    uint8_t cut             # 1: the frame may end early, in its payload
    int8_t side             # the sender: 0 client, 1 server, -1 unknown
    uint32_t max_frame_size     # octets of a whole frame; 0: no limit
    uint32_t max_elements   # of all lists, maps and arrays of one frame or message; 0: no limit
    Violation* notes        # LAX lists here what it accepted; NULL: only the first is kept
    int notes_capacity


cdef inline int fault(Fault* f, int status, int check, int field, int64_t offset,
                      int64_t need, int64_t have, int limited_by) noexcept nogil:
    """Fill `f` and return `status`: `return fault(...)` ends a decoder."""
    f.status = status
    f.check = check
    f.field = field
    f.index = -1
    f.limited_by = limited_by
    f.kind = 0
    f.version = 0
    f.offset = offset
    f.need = need
    f.have = have
    return status
