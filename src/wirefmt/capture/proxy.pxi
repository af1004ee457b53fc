# The PROXY protocol as a carrier: what a proxy says about its client before the client's first octet. HAProxy's
# doc/proxy-protocol.txt. It knows no flow and no protocol; `wirefmt.connection.proxy` is the same for servers.
#
#   version 1   "PROXY" SP ("TCP4" | "TCP6") SP source SP destination SP source port SP destination port CRLF, or
#               "PROXY UNKNOWN" anything CRLF; at most 107 octets
#   version 2   0     signature, 12 octets
#               12    version (2) and command (0 LOCAL, 1 PROXY), 4 bits each
#               13    family (1 IPv4, 2 IPv6, 3 Unix) and transport, 4 bits each
#               14    octets that follow (2): addresses, then records

cdef enum:
    PROXY_V1_MOST = 107
    PROXY_V2_FIXED = 16
    PROXY_WORDS = 4             # source, destination, source port, destination port

cdef const char* PROXY_SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
cdef Text PROXY_KIND = pad_text(b"PROXY")
cdef Text PROXY_OPERATION = pad_text(b"connect")
cdef Text[PROXY_WORDS] PROXY_NAMES
PROXY_NAMES[0] = pad_text(b"client_ip")
PROXY_NAMES[1] = pad_text(b"server_ip")
PROXY_NAMES[2] = pad_text(b"client_port")
PROXY_NAMES[3] = pad_text(b"server_port")


cdef struct Proxied:            # a header that was read, or a request for a tunnel, until its row is put
    Proxied* next               # what came after it
    Mark first, last            # its packets
    int64_t at                  # its offset in the stream
    size_t size                 # of it
    size_t held                 # octets of this block, which has more after the struct
    int tunnel                  # a Tunnel
    uint8_t* more               # the header's octets; of a tunnel, an Asked


cdef struct ProxyWords:         # the addresses of a header as text; size 0: it has none
    uint8_t[PROXY_WORDS] size
    char[PROXY_WORDS][ADDRESS_SIZE] at


cdef int proxy_header(const uint8_t* p, size_t n, size_t* size) noexcept nogil:
    """Is p[:n] a header, or the beginning of one? A Verdict; YES: it has `size` octets."""
    cdef ProxyWords words
    cdef size_t i
    if memcmp(p, PROXY_SIGNATURE, min(n, <size_t>12)) == 0:
        if n > 12 and p[12] != 0x20 and p[12] != 0x21:
            return NO
        size[0] = PROXY_V2_FIXED + load_u16(p + 14) if n >= PROXY_V2_FIXED else PROXY_V2_FIXED
        return MORE if n < size[0] else YES
    if memcmp(p, b"PROXY ", min(n, <size_t>6)) != 0:
        return NO
    for i in range(6, min(n, <size_t>PROXY_V1_MOST)):
        if p[i] == c"\n":
            size[0] = i + 1
            return YES if p[i - 1] == c"\r" and (memcmp(p + 6, b"UNKNOWN", min(i - 6, <size_t>7)) == 0
                                                 or proxy_words(p, i + 1, &words)) else NO
    return MORE if n < PROXY_V1_MOST else NO


cdef bint proxy_words(const uint8_t* p, size_t n, ProxyWords* words) noexcept nogil:
    """The addresses of a whole header. False: it has none."""
    cdef int ip_version, word
    cdef size_t at, width
    memset(words, 0, sizeof(ProxyWords))
    if p[0] == c"P":
        if memcmp(p + 6, b"TCP4 ", 5) != 0 and memcmp(p + 6, b"TCP6 ", 5) != 0:
            return False
        word = 0
        for at in range(11, n - 2):
            if p[at] == c" ":
                if words.size[word] == 0 or word == PROXY_WORDS - 1:
                    return False
                word += 1
            elif words.size[word] == ADDRESS_SIZE - 1 or p[at] <= c" " or p[at] >= 0x7F:
                return False
            else:
                words.at[word][words.size[word]] = <char>p[at]
                words.size[word] += 1
        return word == PROXY_WORDS - 1 and words.size[word] != 0
    ip_version = 4 if p[13] >> 4 == 1 else 6
    width = 4 if ip_version == 4 else 16
    if p[12] & 0x0F == 0 or not 1 <= p[13] >> 4 <= 2 or n < PROXY_V2_FIXED + 2 * width + 4:
        return False
    at = PROXY_V2_FIXED
    for word in range(2):
        words.size[word] = <uint8_t>write_address(ip_version, p + at + <size_t>word * width, words.at[word])
        words.size[2 + word] = <uint8_t>snprintf(words.at[2 + word], ADDRESS_SIZE, "%d",
                                                 <int>load_u16(p + at + 2 * width + 2 * <size_t>word))
    return True


cdef void put_header(MessageTable t, const MessageContext* m, const Text* protocol, const Proxied* header) noexcept nogil:
    """The row of a header."""
    cdef ProxyWords words
    cdef char[4 * ADDRESS_SIZE] line
    cdef int64_t row = t.begin_row(m)
    cdef int word
    put_text(t.cols + T_PROTOCOL, row, protocol)
    put_text(t.cols + T_KIND, row, &PROXY_KIND)
    put_text(t.cols + T_OPERATION, row, &PROXY_OPERATION)
    if proxy_words(header.more, header.size, &words):
        for word in range(PROXY_WORDS):
            put_map(t.cols + T_HEADERS, row, PROXY_NAMES[word].at, PROXY_NAMES[word].size,
                    <const uint8_t*>words.at[word], words.size[word])
        if t.options.detail:
            put_octets(t.cols + T_DETAIL, row, <const uint8_t*>line, snprintf(
                line, sizeof(line), "client %s port %s, server %s port %s",
                words.at[0], words.at[2], words.at[1], words.at[3]))
    t.put_payload(row, header.more, <int64_t>header.size)
    t.put_status(row, ROW_OK, NULL, 0)
