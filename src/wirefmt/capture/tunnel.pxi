# Tunnels through a proxy as carriers: what a client asks for before its stream begins, and the answer. SOCKS5 (RFC 1928, with the
# password of RFC 1929) and CONNECT of HTTP (RFC 9110, 9.3.6). It knows no flow and no protocol. Each direction can be read alone.
# Names and passwords of users are skipped and not kept.
#
#   SOCKS5, client   5, number of methods, methods; perhaps 1, size, user, size, password; then
#                    5, command (1: connect), 0, type (1 IPv4, 3 name with its size, 4 IPv6), address, port (2)
#   SOCKS5, server   5, method; after method 2: 1, status; then 5, reply, 0, type, address, port (2)
#   HTTP             "CONNECT host:port HTTP/1.1", fields, empty line; "HTTP/1.1 200 ...", fields, empty line. Another status
#                    has a body, and the client may ask again

cdef enum:
    HOST_MOST = 255
    ANSWER_MOST = 1 << 14       # octets of the body of an answer that refuses
    SOCKS_MORE = 5              # octets of a request or reply after which its size is known

cdef enum Tunnel:
    TUNNEL_NONE = 0
    TUNNEL_SOCKS
    TUNNEL_HTTP

cdef Text SOCKS_KIND = pad_text(b"SOCKS5")
cdef Text CONNECT_KIND = pad_text(b"HTTP CONNECT")
cdef Text SERVER_NAME = pad_text(b"server_name")


cdef struct Asked:              # where a client wants to go
    uint8_t size                # of the host
    uint8_t named               # it is a name, not an address
    uint16_t port
    char[HOST_MOST + 1] host


cdef bint keep_host(Asked* asked, const uint8_t* p, size_t n) noexcept nogil:
    """False: it is not a name or an address as text."""
    cdef size_t i
    if not 0 < n <= HOST_MOST:
        return False
    for i in range(n):
        if not c" " < p[i] < 0x7F:
            return False
        asked.host[i] = <char>p[i]
    asked.host[n] = 0
    asked.size = <uint8_t>n
    asked.named = True
    return True


cdef size_t socks_size(const uint8_t* p, size_t n) noexcept nogil:
    """Octets of a request or reply of which SOCKS_MORE are there; 0: it has none of the types of addresses."""
    if p[3] == 1:
        return 4 + 4 + 2
    if p[3] == 4:
        return 4 + 16 + 2
    return <size_t>4 + 1 + p[4] + 2 if p[3] == 3 and p[4] else 0


cdef int socks_request(const uint8_t* p, size_t n, size_t* size, Asked* asked) noexcept nogil:
    """Has a client of SOCKS5 requested a connection with p[:n]? A Verdict; YES: with `size` octets."""
    cdef size_t at, i
    if p[0] != 5 or (n > 1 and p[1] == 0):
        return NO
    if n < 2:
        return MORE
    at = <size_t>2 + p[1]
    for i in range(2, min(n, at)):                      # methods: IANA's, or private ones
        if 0x0A <= p[i] < 0x80 or p[i] == 0xFF:
            return NO
    if n <= at:
        return MORE
    if p[at] == 1:                                      # user and password
        if n < at + 2 or n < at + 3 + p[at + 1]:
            return MORE
        at += <size_t>2 + p[at + 1]
        at += <size_t>1 + p[at]
        if n <= at:
            return MORE
    if p[at] != 5 or (n > at + 1 and p[at + 1] != 1) or (n > at + 2 and p[at + 2] != 0):
        return NO
    if n < at + SOCKS_MORE:
        return MORE
    size[0] = socks_size(p + at, n - at)
    if size[0] == 0:
        return NO
    size[0] += at
    if n < size[0]:
        return MORE
    asked.port = load_u16(p + size[0] - 2)
    if p[at + 3] == 3:
        return YES if keep_host(asked, p + at + 5, p[at + 4]) else NO
    asked.named = False
    asked.size = <uint8_t>write_address(4 if p[at + 3] == 1 else 6, p + at + 4, asked.host)
    return YES


cdef int socks_answer(const uint8_t* p, size_t n, size_t* size) noexcept nogil:
    """As socks_request, of the server's octets."""
    cdef size_t at = 2
    if p[0] != 5:
        return NO
    if n < 2:
        return MORE
    if p[1] == 0xFF:                                    # no method
        size[0] = 2
        return YES
    if p[1] == 2:
        if n > 2 and p[2] != 1:
            return NO
        at = 4
    if n < at + SOCKS_MORE:
        return NO if n > at and p[at] != 5 else MORE
    size[0] = socks_size(p + at, n - at) if p[at] == 5 and p[at + 2] == 0 else 0
    if size[0] == 0:
        return NO
    size[0] += at
    return YES if n >= size[0] else MORE


cdef int connect_request(const uint8_t* p, size_t n, size_t* size, Asked* asked) noexcept nogil:
    """As socks_request, of CONNECT."""
    cdef size_t at = 8
    cdef size_t colon = 0
    cdef size_t i
    cdef uint32_t port = 0
    if memcmp(p, b"CONNECT ", min(n, <size_t>8)) != 0:
        return NO
    while at < min(n, <size_t>8 + HOST_MOST + 6) and p[at] != c" ":
        if not c" " < p[at] < 0x7F:
            return NO
        if p[at] == c":":
            colon = at
        at += 1
    if at < n and (p[at] != c" " or colon <= 8 or not 1 < at - colon <= 6
                   or memcmp(p + at, b" HTTP/1.", min(n - at, <size_t>8)) != 0):
        return NO
    if at >= n:
        return MORE
    for i in range(colon + 1, at):
        if not c"0" <= p[i] <= c"9":
            return NO
        port = 10 * port + p[i] - c"0"
    if port > 0xFFFF or not keep_host(asked, p + 8, colon - 8):
        return NO
    asked.port = <uint16_t>port
    size[0] = http_head_size(p, min(n, <size_t>HTTP_HEAD_MAX))
    if size[0]:
        return YES
    return MORE if n < HTTP_HEAD_MAX else NO


cdef int connect_answer(const uint8_t* p, size_t n, size_t* size, bint* opened) noexcept nogil:
    """As socks_request, of the server's octets. `opened`: the stream begins after them; otherwise another answer may follow."""
    cdef size_t head, i
    cdef size_t body = 0
    cdef Span length
    if memcmp(p, b"HTTP/1.", min(n, <size_t>7)) != 0:
        return NO
    head = http_head_size(p, min(n, <size_t>HTTP_HEAD_MAX))
    if head == 0:
        return MORE if n < HTTP_HEAD_MAX else NO
    opened[0] = head > 12 and p[9] == c"2"
    if not opened[0]:
        length = http_field(p, head, b"\r\ncontent-length:", 17)
        for i in range(<size_t>length.size):             # 0 if there is no such field
            if c"0" <= length.at[i] <= c"9":
                body = min(10 * body + length.at[i] - c"0", <size_t>ANSWER_MOST + 1)
        if body > ANSWER_MOST:
            return NO
    size[0] = head + body
    return YES if n >= size[0] else MORE


cdef void put_asked(MessageTable t, const MessageContext* m, const Text* protocol, int tunnel, const Asked* asked) noexcept nogil:
    """The row of a request for a tunnel."""
    cdef char[HOST_MOST + 32] text
    cdef int64_t row = t.begin_row(m)
    cdef const Text* name = &SERVER_NAME if asked.named else &PROXY_NAMES[1]
    cdef int size = snprintf(text, sizeof(text), "%u", <unsigned int>asked.port)
    put_text(t.cols + T_PROTOCOL, row, protocol)
    put_text(t.cols + T_KIND, row, &SOCKS_KIND if tunnel == TUNNEL_SOCKS else &CONNECT_KIND)
    put_text(t.cols + T_OPERATION, row, &PROXY_OPERATION)
    put_map(t.cols + T_HEADERS, row, name.at, name.size, <const uint8_t*>asked.host, asked.size)
    put_map(t.cols + T_HEADERS, row, PROXY_NAMES[3].at, PROXY_NAMES[3].size, <const uint8_t*>text, <size_t>size)
    if t.options.detail:
        size = snprintf(text, sizeof(text), "to %s port %u", asked.host, <unsigned int>asked.port)
        put_octets(t.cols + T_DETAIL, row, <const uint8_t*>text, <size_t>size)
    t.put_status(row, ROW_OK, NULL, 0)
