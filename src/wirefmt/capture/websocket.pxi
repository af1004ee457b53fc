# WebSocket: the handshake's headers and the frames of one direction, payload out. RFC 6455.
# It knows no protocol. Payload is returned in parts, masked as in the stream; `unmask` copies it.

cdef enum:
    WS_HEAD_MAX = 14            # octets of a frame's header: 2, 8 of length, 4 of mask
    HTTP_HEAD_MAX = 16384       # octets of the longest request or response header

cdef enum WsOpcode:             # RFC 6455, 5.2
    WS_CONTINUATION = 0
    WS_TEXT = 1
    WS_BINARY = 2


cdef enum WsDeflate:            # what the handshake has said of permessage-deflate (RFC 7692, 7): 0, not known, or these bits
    WS_PLAIN = 1                # not agreed
    WS_DEFLATE = 2
    WS_CLIENT_FRESH = 4         # each message is compressed without what was before it
    WS_SERVER_FRESH = 8


cdef struct WebSocket:          # one direction, after the handshake
    uint8_t head[WS_HEAD_MAX]
    uint8_t have, need          # octets of the header
    uint8_t mask[4]
    bint masked, data           # data: not a control frame
    bint compressed             # RSV1
    uint64_t left               # remaining payload octets of the frame
    uint64_t at                 # payload octets of the frame read so far, for the mask


cdef size_t ws_header(WebSocket* w, const uint8_t* p, size_t n) noexcept nogil:
    """Collect a frame's header. Octets used; w.need is 0 once it is whole.

    0     FIN, RSV1 RSV2 RSV3, opcode (4 bits)
    1     MASK, length (7 bits; 126: two octets follow, 127: eight)
    ...   length, masking key if MASK
    """
    cdef size_t used = 0
    cdef uint8_t short_length
    if w.need == 0:
        w.have = 0
        w.need = 2
    while used < n and w.have < w.need:
        w.head[w.have] = p[used]
        w.have += 1
        used += 1
        if w.have == 2:
            short_length = w.head[1] & 0x7F
            w.need += <uint8_t>((8 if short_length == 127 else 2 if short_length == 126 else 0)
                                + (4 if w.head[1] & 0x80 else 0))
    if w.have < w.need:
        return used
    short_length = w.head[1] & 0x7F
    w.left = (load_u64(w.head + 2) if short_length == 127 else
              load_u16(w.head + 2) if short_length == 126 else short_length)
    w.masked = w.head[1] & 0x80 != 0
    if w.masked:
        memcpy(w.mask, w.head + w.need - 4, 4)
    w.data = w.head[0] & 0x08 == 0
    w.compressed = w.head[0] & 0x40 != 0
    w.at = 0
    w.need = 0
    return used


cdef inline void unmask(WebSocket* w, const uint8_t* p, size_t n, uint8_t* out) noexcept nogil:
    """The next `n` payload octets of the frame, as they were before masking (5.3)."""
    cdef size_t i
    for i in range(n):
        out[i] = p[i] ^ w.mask[(w.at + i) & 3]


cdef bint ws_usual(const WebSocket* w) noexcept nogil:
    """Is the header valid in RFC 6455? If not, the frame boundary is lost. RSV1 may only begin a message (RFC 7692, 6)."""
    cdef int opcode = w.head[0] & 0x0F
    if w.compressed and not 1 <= opcode <= 2:
        return False
    return not w.head[0] & 0x30 and (opcode <= 2 or 8 <= opcode <= 10) and not w.left >> 63


cdef inline bint ws_ends(const WebSocket* w) noexcept nogil:
    """Is the frame the last one of its message?"""
    return w.head[0] & 0x80 != 0


cdef enum WsPart:               # what begins at a position, see ws_part
    WS_NONE = 0
    WS_SHORT                    # too few octets to decide
    WS_HEADER
    WS_CONTROL
    WS_MESSAGE


cdef inline bint ws_may_begin(uint8_t first) noexcept nogil:
    """Can this be the first octet of a binary message, perhaps a compressed one, or a control frame?"""
    return first in (0x02, 0x82, 0x42, 0xC2, 0x88, 0x89, 0x8A)


cdef int ws_head(const uint8_t* p, size_t n, bint masked, bint deflate, size_t* header, uint64_t* length) noexcept nogil:
    """A frame's header in its strict form (5.2): no RSV bit, a binary or control frame, the shortest form of the
    length. `deflate`: a binary frame may have RSV1. WS_NONE, WS_SHORT (`header` octets are needed) or WS_HEADER."""
    cdef int opcode
    cdef uint8_t short_length
    header[0] = 2
    if n == 0:
        return WS_SHORT
    opcode = p[0] & 0x0F
    if p[0] & (0x30 if deflate and opcode == 2 else 0x70) or opcode not in (0, 2, 8, 9, 10) or (opcode & 8 and not p[0] & 0x80):
        return WS_NONE
    if n < 2:
        return WS_SHORT
    short_length = p[1] & 0x7F
    if (p[1] & 0x80 != 0) != masked or (opcode & 8 and short_length > 125):
        return WS_NONE
    header[0] = 2 + (8 if short_length == 127 else 2 if short_length == 126 else 0) + (4 if masked else 0)
    if n < header[0]:
        return WS_SHORT
    length[0] = (load_u64(p + 2) if short_length == 127 else load_u16(p + 2) if short_length == 126 else short_length)
    if (short_length == 126 and length[0] < 126) or (short_length == 127 and (length[0] < 1 << 16 or length[0] >> 31)):
        return WS_NONE
    return WS_HEADER


cdef int ws_part(const uint8_t* p, size_t n, bint masked, bint deflate, uint8_t* out, size_t capacity, size_t* size,
                 size_t* got) noexcept nogil:
    """The control frame or the whole binary message (with control frames between its frames) at p, of one direction.

    A WsPart. WS_MESSAGE: `size` octets, its payload is out[:got]. WS_SHORT: at least `size` octets are needed, out[:got] is
    what is there. Messages of more than `capacity` octets are WS_NONE. `deflate`: it may be compressed, as its first octet says.
    """
    cdef size_t at = 0
    cdef size_t header, k, i
    cdef uint64_t length = 0
    cdef int part, opcode
    cdef bint begun = False
    got[0] = 0
    while True:
        part = ws_head(p + at, n - at, masked, deflate and not begun, &header, &length)
        if part == WS_SHORT:
            size[0] = at + header
        if part != WS_HEADER:
            return part
        opcode = p[at] & 0x0F
        if not opcode & 8:
            if opcode != (0 if begun else 2) or length > capacity - got[0]:
                return WS_NONE
            begun = True
            k = min(<size_t>length, n - at - header)
            for i in range(k):
                out[got[0] + i] = p[at + header + i] ^ (p[at + header - 4 + (i & 3)] if masked else 0)
            got[0] += k
        size[0] = at + header + <size_t>length
        if size[0] > n:
            return WS_SHORT
        if opcode & 8 and not begun:
            return WS_CONTROL
        if not opcode & 8 and p[at] & 0x80:
            return WS_MESSAGE
        at = size[0]


cdef inline uint8_t lower(uint8_t c) noexcept nogil:
    return c | 0x20 if c"A" <= c <= c"Z" else c


cdef const uint8_t* find_text(const uint8_t* p, size_t n, const char* text, size_t size) noexcept nogil:
    """The position of `text` (lower case) in p[:n], in any case; NULL: not found."""
    cdef size_t i, k
    if n < size:
        return NULL
    for i in range(n - size + 1):
        k = 0
        while k < size and lower(p[i + k]) == <uint8_t>text[k]:
            k += 1
        if k == size:
            return p + i
    return NULL


cdef size_t http_head_size(const uint8_t* p, size_t n) noexcept nogil:
    """Octets up to and including the empty line; 0: it has not arrived."""
    cdef const uint8_t* end = find_text(p, n, b"\r\n\r\n", 4)
    return <size_t>(end - p) + 4 if end != NULL else 0


cdef Span http_field(const uint8_t* p, size_t n, const char* name, size_t size) noexcept nogil:
    """The value of a field: `name` is given as b"\\r\\nupgrade:", lower case. at NULL: no such field."""
    cdef Span value
    cdef const uint8_t* at = find_text(p, n, name, size)
    cdef const uint8_t* end
    value.at = NULL
    value.size = 0
    if at != NULL:
        value.at = at + size
        end = find_text(value.at, <size_t>(p + n - value.at), b"\r\n", 2)
        value.size = <uint32_t>((end if end != NULL else p + n) - value.at)
    return value
