# What is kept of connections and open operations.

cdef enum:                       # texts of a connection
    Y_VERSION = 0
    Y_CLIENT_ID
    Y_USER_NAME
    Y_VIRTUAL_HOST
    Y_CLIENT_PRODUCT
    Y_SERVER_PRODUCT
    Y_END_KIND
    Y_END_TEXT
    Y_FAULT
    Y_WAITED_FOR
    Y_VIOLATION
    Y_MISUSE
    Y_MECHANISM
    Y_HELD_FOR
    Y_PROXIED_CLIENT
    Y_PROXIED_SERVER
    Y_COUNT

cdef enum:                       # numbers of a connection; -1: not known
    N_CLIENT_MESSAGES = 0
    N_SERVER_MESSAGES
    N_PUBLISHED
    N_DELIVERED
    N_CONFIRMED
    N_ACKNOWLEDGED
    N_SUBSCRIPTIONS
    N_CHANNELS
    N_LINKS
    N_CONSUMERS
    N_KEEP_ALIVE
    N_FRAME_MAX
    N_CLIENT_WINDOW
    N_SERVER_WINDOW
    N_SESSION_EXPIRY
    N_UNCONFIRMED
    N_UNSETTLED
    N_LOGIN
    N_ENDED
    N_CLIENT_MESSAGE
    N_SERVER_MESSAGE
    N_MALFORMED
    N_FAULT_DIRECTION
    N_FAULT
    N_FAULT_FRAME
    N_ENDED_FRAME
    N_SECRET
    N_MOST_UNSETTLED
    N_WINDOW_FULL
    N_WINDOW_FULL_AT            # follows N_WINDOW_FULL, as N_NO_CREDIT_AT follows N_NO_CREDIT
    N_NO_CREDIT
    N_NO_CREDIT_AT
    N_VIOLATIONS
    N_VIOLATION_AT
    N_VIOLATION_DIRECTION
    N_VIOLATION_FRAME
    N_MISUSES
    N_MISUSE_AT
    N_MISUSE_DIRECTION
    N_MISUSE_FRAME
    N_SESSION_FULL              # followed by its time, as the next two
    N_SESSION_FULL_AT
    N_HELD
    N_HELD_AT
    N_HELD_SESSION
    N_HELD_SESSION_AT
    N_COUNT
    N_COUNTERS = N_KEEP_ALIVE   # those before it begin with 0

cdef enum SpaceKind:            # what is numbered together, in a direction and a channel
    S_PUBLISH = 0               # publishes and what acknowledges them
    S_DELIVER
    S_REQUEST                   # answered in the order of the requests
    S_NUMBERED                  # requests with a number
    S_LOGIN
    S_PING
    S_BLOCKED
    S_TX_PUBLISH                # wait for the outcome of a transaction
    S_TX_ACK                    # deliveries
    S_MANDATORY                 # published without confirms; may be returned
    S_SESSION                   # AMQP 1.0: observed.pxi

cdef enum KnownKind:            # what a connection has named
    W_CONSUMER = 0              # consumer tag: queue, no_ack
    W_LINK                      # handle: name and address of a link
    W_CHANNEL                   # the channel of the other side for the same session
    W_CREDIT                    # name of a link to a receiver: what the sender may send
    W_WINDOW                    # channel of an AMQP 1.0 session: what this side may send in it
    W_SESSION                   # a channel, W_HANDLE a handle, W_LINK_STATES a link: observed.pxi
    W_HANDLE
    W_LINK_STATES

cdef enum OperationKind:        # in the order of KINDS
    O_LOGIN = 0
    O_PUBLISH
    O_DELIVER
    O_SUBSCRIBE
    O_UNSUBSCRIBE
    O_CONSUME
    O_CANCEL
    O_GET
    O_OPEN
    O_CLOSE
    O_DECLARE
    O_BIND
    O_UNBIND
    O_DELETE
    O_PURGE
    O_REQUEST
    O_TRANSACTION
    O_HEARTBEAT
    O_BLOCKED
    O_FLOW
    O_COUNT

cdef enum Outcome:              # in the order of OUTCOMES
    E_NONE = 0
    E_ACKNOWLEDGED
    E_REJECTED
    E_REQUEUED
    E_RELEASED
    E_MODIFIED
    E_RETURNED
    E_REFUSED
    E_TIMED_OUT
    E_CANCELLED
    E_SUPERSEDED
    E_LOST
    E_UNANSWERED
    E_COUNT


cdef enum:                      # texts that the publishes and deliveries of a connection share, for paths
    G_CAPTURE = 0
    G_CLIENT_ID
    G_CLIENT_IP
    G_DESTINATION
    G_ROUTING_KEY
    G_QUEUE
    G_GROUP
    G_COUNT

cdef enum:                       # texts of an operation
    Z_CAPTURE = 0
    Z_CLIENT_ID
    Z_CLIENT_IP
    Z_LINK
    Z_DESTINATION
    Z_ROUTING_KEY
    Z_QUEUE
    Z_GROUP
    Z_OPERATION
    Z_MESSAGE_KIND
    Z_MESSAGE_ID
    Z_CORRELATION_ID
    Z_REPLY_TO
    Z_TRACEPARENT
    Z_DEATH_REASON
    Z_DEATH_QUEUE
    Z_TEXT                      # of the answer; not kept
    Z_COUNT

cdef enum:
    ABSENT = -0x7FFFFFFF - 1    # of a number that may be negative


cdef struct Name:               # a text that several sides of paths share; its octets follow
    Entry entry
    int64_t users
    uint32_t size
    bint has_place
    uint64_t place              # as a destination (place_of), when somebody has asked


cdef struct Known:
    Entry entry
    Known* following            # of the same connection
    Conn* conn
    uint8_t what
    int8_t direction
    int32_t channel
    uint64_t key
    Span text, text2            # allocated
    int64_t number
    Known* credit               # W_LINK: of the link, if this side sends. W_HANDLE: its W_LINK_STATES
    Gate gate                   # W_CREDIT, W_WINDOW
    uint32_t sent, limit        # W_CREDIT, W_WINDOW: delivery-count or transfer-id of the sender, and up to which it may send
    uint32_t window             # W_WINDOW: of the other direction, as begin said
    uint8_t[2] states           # W_LINK_STATES: of client and server


cdef struct Space:
    Entry entry
    Space* following            # of the same connection
    Conn* conn
    uint8_t what
    int8_t direction
    uint8_t confirms            # publishes are numbered, and acknowledged
    uint8_t transacts
    uint8_t unordered           # open ones are not all in the order of their numbers
    int32_t channel
    Op* first                   # open ones, in the order in which they began
    Op* last
    Op* returned                # of publishes: the one that basic.return named last. NULL: the search begins at the first
    int64_t count               # of the open ones
    int64_t window              # how many deliveries may be open; 0: not known, or any number
    Gate gate                   # of that window
    uint8_t[2] states           # of a channel or session: observers.pxi
    int64_t counter             # of publishes; of deliveries: the consumers of this channel; of sessions that began here


cdef enum:
    UNREAD_MAX = 16

cdef struct Waiting:            # a message that its receiver reads later: observers.pxi
    int64_t ns, frame
    int16_t kind
    bint allowed                # its sender's table allows it


cdef struct Unread:             # of client and server
    int[2] count
    Waiting[2][UNREAD_MAX] at


cdef struct Taken:              # MQTT 5.0: what a side takes
    bint said
    int64_t packet              # octets
    int32_t window, aliases
    int8_t qos
    bint retain, wildcards, shared, identifiers


cdef struct Conn:
    Entry entry
    Conn* before                # in the order of their first messages
    Conn* after
    int64_t flow_id
    int protocol
    uint64_t server             # a hash of its address and port
    Span[Y_COUNT] texts         # allocated
    int64_t[N_COUNT] numbers
    int64_t subscriptions, channels, links, consumers       # now
    int64_t timeout_ns          # NSQ: of a message
    int64_t code
    int8_t session_present      # -1: not known
    int8_t ended_by             # direction; -1: nobody
    bint has_code, logged_in, login_refused, failed
    bint begun                  # its protocol header was captured
    bint unobserved             # something was not captured or not valid: what follows is not judged
    uint8_t[2] states           # of client and server: observers.pxi
    uint8_t[2] sasl_states      # AMQP 1.0
    Taken[2] takes              # of client and server
    Unread* unread              # NULL: there was nothing
    Space* spaces
    Known* known
    Space* recent               # the last result of space_of
    Op* oldest                  # of the open ones, in the order in which they began
    Op* newest
    int64_t octets              # memory of the open ones
    Answers[2] answers          # to publishes, and to deliveries
    int64_t[2] largest          # payload of a publish, and of a delivery; -1: no message
    int64_t[2] received_ns      # when the latest of them with a PUBREC began; -1: no message
    int64_t names               # Known and Space
    Name* shared[G_COUNT]       # texts of its last publish or delivery


cdef struct Op:                 # an operation
    Entry entry
    Op* before                  # of its space
    Op* after
    Op* older                   # of its connection
    Op* newer
    Op* older_of_all            # of all that are open
    Op* newer_of_all
    Conn* conn                  # NULL: a Resumable, whose connection may be gone
    Space* space                # NULL: it is not open
    uint64_t key
    Span[Z_COUNT] texts         # of an open one: after this struct
    int64_t size                # octets of memory
    uint8_t kind
    uint8_t pending             # the Outcome that it will have when it is final; E_NONE: not known yet
    uint8_t no_ack              # GET: what it gets needs no acknowledgement. Discharge: it rolls back
    int8_t direction, protocol
    int8_t redelivered, retained, persistent, qos       # -1: not said
    int16_t request             # the Kind of the message that opened it
    int32_t channel, client_port, code, attempts, transmissions
    int64_t flow_id, resumed_from
    int64_t sequence, payload_size, started_ns, received_ns, released_ns, frame, expires_ns, number, ttl_ms
    uint64_t hash               # of the payload
    uint64_t transaction        # AMQP 1.0: a hash of its identifier; 0: none
    bint has_hash


cdef enum:
    KEPT_MAX = 1024             # octets of a text of a connection; the rest is cut
    NAMES_MAX = 1 << 16         # Known and Space of one connection
    STEPS_MAX = 1024            # open operations that a message looks at beside those that it settles


cdef bint keep_span(Span* kept, const Span* s) noexcept nogil:
    """Replace an allocated text by a copy of this one, unless this one is absent. True: it has changed."""
    cdef uint32_t n = whole_text(s, KEPT_MAX)
    cdef uint8_t* copy
    if s.at == NULL or (kept.size == n and kept.at != NULL and same_octets(kept.at, s.at, n)):
        return False
    copy = <uint8_t*>malloc(n + 1)
    if copy == NULL:
        return False
    memcpy(copy, s.at, n)
    free(<void*>kept.at)
    kept.at = copy
    kept.size = n
    return True


cdef inline bint is_kept(const Span* kept, const Span* s) noexcept nogil:
    """Has keep_span nothing to do? Nearly always; the general answer is its own."""
    return s.at == NULL or (kept.size == s.size and kept.at != NULL and same_octets(kept.at, s.at, s.size))


cdef inline void most(Conn* c, int number, int64_t now) noexcept nogil:
    c.numbers[number] = max(c.numbers[number], now)


cdef inline size_t text_octets(const Op* o) noexcept nogil:
    cdef size_t n = 0
    cdef int i
    for i in range(Z_COUNT):
        n += o.texts[i].size
    return n


cdef void copy_op(Op* to, const Op* of, uint8_t* at) noexcept nogil:
    """A copy whose texts are at `at`: text_octets of them."""
    cdef int i
    to[0] = of[0]
    for i in range(Z_COUNT):
        if of.texts[i].at != NULL:
            copy_octets(at, of.texts[i].at, of.texts[i].size)
            to.texts[i].at = at
            at += of.texts[i].size


cdef bint may_be_counted(const Op* o, int outcome, int64_t large) noexcept nogil:
    """May a rule of findings count this operation (COUNTED of counts.py)? False: it is like nearly all others."""
    cdef bint usual = (o.kind == O_PUBLISH or o.kind == O_DELIVER or o.kind == O_GET or o.kind == O_HEARTBEAT
                       or o.kind == O_FLOW or (o.kind == O_REQUEST and o.direction == 0))
    return not usual or outcome > E_ACKNOWLEDGED or o.redelivered == 1 or o.retained == 1 or o.attempts > 1 or (
        o.persistent == 1 and o.kind == O_PUBLISH and outcome == E_NONE) or o.payload_size >= large or o.ttl_ms > 0 or (
        o.code != ABSENT and o.code != 0) or o.texts[Z_DEATH_QUEUE].at != NULL or o.resumed_from != 0
