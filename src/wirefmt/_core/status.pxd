# What a decoder answers, and where and why it stopped. Header-only, nogil.
from libc.stdint cimport int64_t


cdef enum Status:
    OK = 0
    NEED_DATA = 1       # only frame_size() may say this
    TRUNCATED = 2       # a field runs past what bounds it
    MALFORMED = 3       # the octets break a rule
    LIMIT = 4           # a limit of the caller's would be passed
    UNSUPPORTED = 5     # well formed, but of a version this decoder does not speak


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
    int64_t have        # octets (or count) there


cdef struct Violation:      # LAX: a check that was skipped
    int check, field, index     # as of a Fault
    int64_t offset


cdef inline int fault(Fault* f, int status, int check, int field, int64_t offset,
                      int64_t need, int64_t have, int limited_by) noexcept nogil:
    """Fill `f`, answer `status`: `return fault(...)` ends a decoder."""
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
