# WebSocket as a carrier: the handshake's headers and the frames of one direction, payload out. RFC 6455.
# Knows no protocol. Payload is handed out piece by piece, masked as it lies in the stream; `unmask` copies it.
#
# Uses: be. Included by _core.pyx.

cdef enum:
    WS_HEAD_MAX = 14            # octets of a frame's header: 2, 8 of length, 4 of mask
    HTTP_HEAD_MAX = 16384       # octets of a request's or response's header that are waited for

cdef enum WsOpcode:             # RFC 6455, 5.2
    WS_CONTINUATION = 0
    WS_TEXT = 1
    WS_BINARY = 2


cdef struct WebSocket:          # one direction, after the handshake
    uint8_t head[WS_HEAD_MAX]
    uint8_t have, need          # octets of the header
    uint8_t mask[4]
    bint masked, data           # data: not a control frame
    bint compressed             # RSV1: an extension has changed the payload
    bint lost                   # the frame boundary is not known
    uint64_t left               # payload octets of the frame still to come
    uint64_t at                 # payload octets of the frame behind us, for the mask


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


cdef bint ws_plausible(const uint8_t* p, size_t n, bint masked) noexcept nogil:
    """Are these `n` octets exactly a row of WebSocket frames of one direction?"""
    cdef WebSocket w
    cdef size_t at = 0
    memset(&w, 0, sizeof(WebSocket))
    while at < n:
        if p[at] & 0x30 or (p[at] & 0x0F) not in (0, 1, 2, 8, 9, 10):
            return False
        at += ws_header(&w, p + at, n - at)
        if w.need or w.masked != masked or w.left > n - at:
            return False
        at += <size_t>w.left
    return n > 0


cdef inline uint8_t lower(uint8_t c) noexcept nogil:
    return c | 0x20 if c"A" <= c <= c"Z" else c


cdef const uint8_t* find_text(const uint8_t* p, size_t n, const char* text, size_t size) noexcept nogil:
    """Where `text` (lower case) is in p[:n], in any case; NULL: nowhere."""
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
    """Octets up to and with the empty line; 0: it is not there yet."""
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
