# What a capture file may be that is not read, and the texts of all faults of captures.
from wirefmt.spec.captures import FORMATS as CAPTURE_FORMATS

cdef enum:
    FORMAT_WINDOW = 4096            # octets examined to name an unsupported format
    FORMATS_MAX = 64                # rows of wirefmt/spec/captures.py
    MAX_RECORD = 262144             # octets of one packet: libpcap's largest snapshot length

cdef enum CaptureReason:
    CAPTURE_OK = 0
    CAPTURE_NOT_A_CAPTURE
    CAPTURE_EMPTY
    CAPTURE_CUT_HEADER
    CAPTURE_CUT_RECORD
    CAPTURE_BAD_RECORD
    CAPTURE_ZEROS
    CAPTURE_BLOCK_LENGTH
    CAPTURE_BLOCK_TRAILER
    CAPTURE_BAD_BYTE_ORDER
    CAPTURE_BAD_VERSION
    CAPTURE_BAD_INTERFACE
    CAPTURE_BAD_PACKET_BLOCK
    CAPTURE_TOO_MANY_INTERFACES
    CAPTURE_FORMAT              # and above: an unsupported format, by row of wirefmt/spec/captures.py


cdef const char** FAULT_TEXTS = [       # by CaptureReason
    b"?",
    b"not a packet capture: unknown magic number",
    b"empty file",
    b"file ends inside its header",
    b"file ends inside a record",
    b"implausible record header",
    b"zeros where a record should be",
    b"implausible block length",
    b"block length at its end differs from the one at its start",
    b"unknown byte-order magic",
    b"unknown version of the file format",
    b"packet of an interface that was not described",
    b"packet does not fit in its block",
    b"too many interfaces",
]


cdef inline const char* capture_fault_text(int reason) noexcept nogil:
    """Of any number, also one that is not a CaptureReason: a row of the packets table can have any."""
    if 0 <= reason < <int>CAPTURE_FORMAT:       # int, because an enum has no sign
        return FAULT_TEXTS[reason]
    if 0 <= reason - <int>CAPTURE_FORMAT < format_count:
        return formats[reason - <int>CAPTURE_FORMAT].text
    return FAULT_TEXTS[0]


cdef inline uint32_t load_u32_as(const uint8_t* p, bint big) noexcept nogil:
    """In the byte order of the file; compilers make it one load."""
    if big:
        return load_u32(p)
    return p[0] | (<uint32_t>p[1] << 8) | (<uint32_t>p[2] << 16) | (<uint32_t>p[3] << 24)


cdef inline uint16_t load_u16_as(const uint8_t* p, bint big) noexcept nogil:
    return load_u16(p) if big else <uint16_t>(p[0] | (<uint32_t>p[1] << 8))


# ------------------------------------------------------------------------------------------------ unsupported formats

ctypedef bint (*Heuristic)(const uint8_t* p, size_t n, bint last) noexcept nogil

cdef struct UnreadFormat:
    const char* magic
    size_t size
    int at                      # -1: anywhere in the first 64 octets
    const char* text
    Heuristic looks_like        # NULL: the magic decides

cdef UnreadFormat[FORMATS_MAX] formats
cdef int format_count = 0


cdef bint looks_like_erf(const uint8_t* p, size_t n, bint last) noexcept nogil:
    """Endace ERF: time (8, little-endian, seconds in the upper half), type (1), flags (1), record length (2), lost (2),
    wire length (2). At least two records, at most a day apart, or one record that is the whole file."""
    cdef size_t at = 0
    cdef size_t size
    cdef uint32_t seconds, before = 0
    cdef int count = 0
    while n - at >= 16:
        seconds = load_u32_as(p + at + 4, False)
        size = load_u16(p + at + 10)
        if not 1 <= p[at + 8] & 0x7F <= 48 or size < 16:
            return False
        if count and (seconds - before + 86400) > 2 * 86400:     # wraps around if they are far apart
            return False
        before = seconds
        count += 1
        if size > n - at:
            break
        at += size
    return count >= 2 or (last and count == 1 and at == n)


cdef bint looks_like_time(const uint8_t* p, size_t year) noexcept nogil:
    """CommView's: year (2, little-endian), month, day, hours, minutes, seconds."""
    return (1995 <= load_u16_as(p + year, False) < 2100 and 1 <= p[year + 2] <= 12 and 1 <= p[year + 3] <= 31
            and p[year + 4] < 24 and p[year + 5] < 60 and p[year + 6] < 61)


cdef bint looks_like_commview(const uint8_t* p, size_t n, bint last) noexcept nogil:
    """NCF: length (2), length in the source (2), version 0 (1), one octet, a time."""
    return n >= 24 and load_u16(p) == load_u16(p + 2) != 0 and p[4] == 0 and looks_like_time(p, 5)


cdef bint looks_like_commview_x(const uint8_t* p, size_t n, bint last) noexcept nogil:
    """NCFX: length (4), then a time."""
    return n >= 24 and 0 < load_u32_as(p, False) <= MAX_RECORD and looks_like_time(p, 4)


cdef tuple HEURISTICS = ("an Endace ERF capture", "a CommView capture", "a CommView capture (.ncfx)")
cdef list format_octets = []    # keeps the octets of `formats` alive


cdef int set_formats() except -1:
    cdef UnreadFormat* f
    cdef bytes text
    cdef Heuristic[3] functions
    global format_count
    functions[0], functions[1], functions[2] = looks_like_erf, looks_like_commview, looks_like_commview_x
    if len(CAPTURE_FORMATS) > FORMATS_MAX:
        raise ImportError("wirefmt.spec.captures has more rows than the core has space for")
    for row in CAPTURE_FORMATS:
        f = &formats[format_count]
        text = f"this is {row.name}; {row.remedy}".encode("ascii")
        format_octets.append((row.magic, text))
        f.magic = PyBytes_AS_STRING(row.magic)
        f.size = len(row.magic)
        f.at = row.at
        f.text = PyBytes_AS_STRING(text)
        f.looks_like = functions[HEURISTICS.index(row.name)] if not row.magic else NULL
        format_count += 1

set_formats()


cdef int unread_format(const uint8_t* p, size_t n, bint last) noexcept nogil:
    """The CaptureReason of a file that begins with these octets: its format, or CAPTURE_NOT_A_CAPTURE."""
    cdef const UnreadFormat* f
    cdef size_t at, end
    cdef int i
    for i in range(format_count):
        f = &formats[i]
        if f.looks_like != NULL:
            if f.looks_like(p, n, last):
                return CAPTURE_FORMAT + i
            continue
        at = <size_t>(f.at if f.at > 0 else 0)
        end = 64 if f.at < 0 else at + 1
        while at < end and at + f.size <= n:
            if memcmp(p + at, f.magic, f.size) == 0:
                return CAPTURE_FORMAT + i
            at += 1
    return CAPTURE_NOT_A_CAPTURE
