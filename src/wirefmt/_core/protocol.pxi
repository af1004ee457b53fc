# What a capture asks of a protocol: how a stream of one is known, framed, and put into the message table.
#
# Uses: status, table. Included by _core.pyx.

cdef enum Verdict:
    NO = 0
    YES = 1
    MORE = 2                    # not decided by the octets there are
    SERVERS = 3                 # sniff: yes, and these are a server's


cdef enum Carrier:              # what the octets of a stream lie in
    CARRIER_PLAIN = 0
    CARRIER_DEFLATE             # RFC 1951, one stream a direction
    CARRIER_SNAPPY              # the framing format
    CARRIER_TLS                 # not decoded


cdef struct ProtocolState:      # what every protocol's state begins with
    int64_t held                # octets of memory that the state has allocated, its own included: counted in max_buffered


cdef struct Protocol:           # `state` is one connection's; direction: 0 client to server
    Text name
    Text subprotocol            # Sec-WebSocket-Protocol; size 0: not carried by WebSockets
    uint16_t ports[4]           # registered ones; 0: no more. Protocols may share one
    bint both_open              # a server's first octets may be those of a client
    # do a client's first octets open a connection? SERVERS: a server's do
    int (*sniff)(const uint8_t* p, size_t n) noexcept nogil
    # a Status; NEED_DATA until the size of the frame can be told, `size` may then be how many octets that takes.
    # `limit`: octets of a frame; 0: the usual
    int (*frame_size)(void* state, int direction, const uint8_t* p, size_t n, uint32_t limit, size_t* size,
                      Fault* f) noexcept nogil
    # could a frame begin here? YES: a whole, faultless one of `size` octets; MORE: once `size` octets are there.
    # `state` may be NULL: nothing is known of the connection
    int (*plausible)(void* state, int direction, const uint8_t* p, size_t n, size_t* size) noexcept nogil
    # a whole frame behind a hole, before the first of those there is put: what it tells about the connection
    void (*learn)(void* state, int direction, const uint8_t* p, size_t n) noexcept nogil
    # put, put_part and flush answer False where the table became full before their last row. Then they are called again
    # with the same arguments once the batch has been taken, and continue; nothing else of the connection happens between.
    # Whatever puts more than a few rows stops so. A protocol with a `carrier` never does.
    #
    # the rows that exactly one whole frame completes: none (it is part of a message that goes on), one or several. A
    # message of several frames has `ts_first_ns` and `byte_offset` of the first, the rest of the last, and the sum of
    # the sizes; what a protocol keeps for it is bounded
    bint (*put)(MessageTable t, const MessageContext* m, void* state, bint strict, const uint8_t* p, size_t n) noexcept nogil
    # a row for a frame of which only the first `n` octets are there (they may be overwritten); `text` says why
    bint (*put_part)(MessageTable t, const MessageContext* m, void* state, uint8_t* p, size_t n,
                     const char* text, size_t text_size) noexcept nogil
    # a hole, or the end: `partial` rows for what this direction has begun; NULL: every frame is a message
    bint (*flush)(MessageTable t, void* state, int direction, const char* text, size_t text_size) noexcept nogil
    # what carries both directions from here on, as the frames that were put have agreed; NULL: always CARRIER_PLAIN
    int (*carrier)(void* state) noexcept nogil
    void* (*open)() noexcept nogil          # the state of one connection, a ProtocolState; NULL: out of memory
    void (*close)(void* state) noexcept nogil
    # the fault of a frame_size() as text
    int (*fault_text)(const Fault* f, int64_t offset, char* out, size_t room) noexcept nogil
