# NSQ's TCP protocol V2: the octets of one command or frame -> NsqUnitView, checked. Objects and columns both use this room.
#
# https://nsq.io/clients/tcp_protocol_spec.html, and nsqd 1.3.0 where the page is silent or differs (docs/nsq.md).
#
# The two directions have different grammars. A client sends the magic, then commands: a line of words, followed in some commands
# by a size and octets. A server sends frames:
#
#     0  i32  size of what follows      8  i64  nanoseconds          message frames
#     4  i32  frame type               16  u16  attempts
#     8       data                     18  [16] message id
#                                      34       body
from libc.string cimport memchr


cdef enum NsqSide:
    NSQ_CLIENT = 0
    NSQ_SERVER = 1
    NSQ_EITHER = -1                 # the first octet decides: commands are text, sizes of frames begin below it

cdef enum NsqMagicState:
    NSQ_MAGIC_BEFORE = 0            # the magic has been sent
    NSQ_MAGIC_NOW = 1               # the connection begins here
    NSQ_MAGIC_PERHAPS = 2           # the magic may come


cdef struct NsqOptions:
    CommonOptions common            # side: an NsqSide; elements: messages of MPUB, members of JSON
    uint8_t magic                   # of a client: an NsqMagicState
    uint8_t bounded                 # 1: `server` limits what is accepted
    int64_t server[NSQ_OPTIONS]     # by NsqServerOption


cdef struct NsqUnitView:            # spans of the octets; it owns nothing
    const uint8_t* frame
    uint32_t size                   # size of the whole
    uint8_t kind                    # an NsqKind
    int32_t frame_type              # frames
    Span name                       # commands: the first word
    Span line                       # commands: without its end
    uint32_t word_count             # words after the name
    Span words[2]                   # the first of these words
    Span topic, channel, message_id
    bint has_number
    uint64_t number                 # RDY: count; DPUB, REQ: milliseconds; modulo 2^64 as nsqd counts
    Span body                       # message, secret, JSON; MPUB: the sizes and messages after their count; frames: data
    uint32_t message_count          # MPUB
    int64_t timestamp               # message frames, nanoseconds since 1970
    uint16_t attempts
    Notes notes


cdef struct NsqWalk:                # how much of MPUB's messages has been checked
    size_t at                       # in the command: offset of the next size; 0: the count is next
    int32_t count, index


cdef struct NsqReader:              # state shared by the functions below
    const NsqOptions* o
    NsqUnitView* m
    Fault* f


# ------------------------------------------------------------------------------------------------ how long?

cdef int nsq_frame_size(const uint8_t* p, size_t n, const NsqOptions* o, size_t* size, Fault* f) noexcept nogil:
    """Size of the command or frame that begins at `p`, from as few octets as possible.

    Errors are found in the same order however many octets are available: the line, the size of the body, the caller's
    limit. nsq_look and nsq_parse check the contents of the body.
    """
    cdef int status
    if n == 0:
        return NEED_DATA
    status = nsq_size_of_frame(p, n, size, f) if nsq_is_frame(o, p[0]) else nsq_size_of_command(p, n, o, size, f)
    if status == OK and nsq_is_large(o, size[0]):
        return nsq_fault(f, f.kind, NSQ_CHECK_FRAME_SIZE, NSQ_FIELD_FRAME, 0, <int64_t>size[0], o.common.max_frame_size)
    return status


cdef inline bint nsq_is_large(const NsqOptions* o, size_t size) noexcept nogil:
    return o.common.max_frame_size != 0 and size > o.common.max_frame_size


cdef inline bint nsq_is_frame(const NsqOptions* o, uint8_t first) noexcept nogil:
    return o.common.side == NSQ_SERVER or (o.common.side == NSQ_EITHER and not 0x20 <= first < 0x7F)


cdef int nsq_size_of_frame(const uint8_t* p, size_t n, size_t* size, Fault* f) noexcept nogil:
    f.kind = NSQ_FRAME
    if p[0] & 0x80:
        return nsq_fault(f, NSQ_FRAME, NSQ_CHECK_SIZE_NEGATIVE, NSQ_FIELD_SIZE, 0, 0, 0)
    if n < 4:
        return NEED_DATA
    size[0] = <size_t>4 + load_u32(p)
    if size[0] < 8:
        return nsq_fault(f, NSQ_FRAME, NSQ_CHECK_SIZE_TOO_SMALL, NSQ_FIELD_SIZE, 0, 4, <int64_t>size[0] - 4)
    return OK


cdef int nsq_size_of_command(const uint8_t* p, size_t n, const NsqOptions* o, size_t* size, Fault* f) noexcept nogil:
    cdef NsqUnitView m
    cdef NsqReader x
    cdef const NsqCommandRow* row
    cdef size_t head
    cdef int32_t body
    cdef int kind, status
    f.kind = NSQ_MAGIC
    if o.magic == NSQ_MAGIC_NOW or (o.magic == NSQ_MAGIC_PERHAPS and p[0] == 0x20):
        return nsq_size_of_magic(p, n, size, f)
    status = nsq_line_size(p, n, &head, f)
    if status != OK:
        return status
    kind = nsq_kind_of(p, head)
    f.kind = kind
    row = &nsq_commands[kind]
    size[0] = head
    if row.body == NSQ_BODY_NONE:
        return OK
    if n - head >= 4:
        body = <int32_t>load_u32(p + head)
        size[0] = head + 4 + (<size_t>body if body > 0 else 0)
        if size[0] <= n and body >= 0 and not nsq_is_beyond(o, row, body) and not nsq_is_large(o, size[0]):
            return OK               # nsq_parse checks the line
    # the rest is rare: report now the errors that nsqd reports without reading on
    memset(&m, 0, sizeof(m))
    x.o = o
    x.m = &m
    x.f = f
    m.frame = p
    m.kind = <uint8_t>kind
    status = nsq_read_line(&x, head)
    if status != OK or n - head < 4:
        return NEED_DATA if status == OK else status
    return nsq_check_size(&x, head)


cdef int nsq_size_of_magic(const uint8_t* p, size_t n, size_t* size, Fault* f) noexcept nogil:
    cdef const char* magic = b"  V2"
    cdef size_t i
    for i in range(min(n, <size_t>4)):
        if p[i] != <uint8_t>magic[i]:
            return nsq_fault(f, NSQ_MAGIC, NSQ_CHECK_MAGIC, NSQ_FIELD_MAGIC, <int64_t>i, 0, 0)
    size[0] = 4
    return OK if n >= 4 else NEED_DATA


cdef inline int nsq_line_size(const uint8_t* p, size_t n, size_t* size, Fault* f) noexcept nogil:
    """Octets of a command's line, including its newline."""
    cdef const uint8_t* newline = <const uint8_t*>memchr(p, 0x0A, min(n, <size_t>NSQ_LINE_MAX))
    if newline != NULL:
        size[0] = <size_t>(newline - p) + 1
        return OK
    f.kind = NSQ_COMMAND
    if n < NSQ_LINE_MAX:
        return NEED_DATA
    return nsq_fault(f, NSQ_COMMAND, NSQ_CHECK_LINE_TOO_LONG, NSQ_FIELD_COMMAND, NSQ_LINE_MAX, 0, 0)


cdef uint8_t[256] NSQ_FIRST_KIND        # by a name's first letter: the first command with it; NSQ_NOP + 1: no command


cdef int fill_nsq_first_kinds() except -1:
    cdef int kind
    memset(NSQ_FIRST_KIND, NSQ_NOP + 1, sizeof(NSQ_FIRST_KIND))
    for kind in range(NSQ_NOP, NSQ_IDENTIFY - 1, -1):
        NSQ_FIRST_KIND[<uint8_t>nsq_kind_name[kind][0]] = <uint8_t>kind
    return 0


fill_nsq_first_kinds()


cdef inline int nsq_kind_of(const uint8_t* p, size_t line) noexcept nogil:
    """The command whose name begins a line of `line` octets; NSQ_COMMAND: not in the table."""
    cdef int kind
    cdef size_t n
    for kind in range(NSQ_FIRST_KIND[p[0]], NSQ_NOP + 1):
        n = nsq_commands[kind].name_size
        if n < line and memcmp(p, nsq_kind_name[kind], n) == 0 and (
                p[n] == 0x20 or p[n] == 0x0A or (p[n] == 0x0D and n + 2 == line)):
            return kind
    return NSQ_COMMAND


cdef inline bint nsq_is_beyond(const NsqOptions* o, const NsqCommandRow* row, int64_t body) noexcept nogil:
    return o.bounded and body > o.server[row.limit]


# ------------------------------------------------------------------------------------------------ what does it say?

cdef int nsq_parse(const uint8_t* p, size_t n, const NsqOptions* o, NsqUnitView* out, Fault* f) noexcept nogil:
    """Read exactly one whole command or frame. OK, or the fault's status."""
    cdef NsqWalk walk
    cdef size_t size = 0
    cdef int status = nsq_frame_size(p, n, o, &size, f) if n else NEED_DATA
    if status == OK and size > n and o.common.cut and n >= 8:
        return nsq_parse_whole(p, n, o, out, f)
    if status == OK and size > n and f.kind == NSQ_MPUB:
        memset(&walk, 0, sizeof(walk))
        status = nsq_look(p, n, size, o, &walk, f)
    if status == NEED_DATA or (status == OK and size > n):
        return nsq_fault(f, f.kind if n else 0, NSQ_CHECK_FIELD_TRUNCATED, NSQ_FIELD_FRAME, <int64_t>n,
                         <int64_t>size if status == OK else <int64_t>n + 1, <int64_t>n)
    if status != OK:
        return status
    if size < n:
        return nsq_fault(f, f.kind, NSQ_CHECK_TRAILING_OCTETS, NSQ_FIELD_FRAME, <int64_t>size,
                         <int64_t>size, <int64_t>n)
    return nsq_parse_whole(p, n, o, out, f)


cdef int nsq_look(const uint8_t* p, size_t n, size_t size, const NsqOptions* o, NsqWalk* walk, Fault* f) noexcept nogil:
    """Find a fault in an MPUB of `size` octets of which the first `n` are available, because nsqd does not wait for the rest.

    nsq_frame_size has accepted it. `walk` is zero at first; later calls with more octets continue from there.
    """
    cdef NsqUnitView m
    cdef NsqReader x
    memset(&m, 0, sizeof(m))
    x.o = o
    x.m = &m
    x.f = f
    m.frame = p
    m.kind = NSQ_MPUB
    m.size = <uint32_t>size
    if walk.at == 0:
        m.body.at = <const uint8_t*>memchr(p, 0x0A, n) + 5
        m.body.size = <uint32_t>(p + size - m.body.at)
    return nsq_read_messages(&x, p + n, walk)


cdef inline int nsq_parse_whole(const uint8_t* p, size_t n, const NsqOptions* o, NsqUnitView* out, Fault* f) noexcept nogil:
    """Like nsq_parse, if nsq_frame_size has just returned size `n`, or a larger one (`cut`), and the kind in `f.kind`."""
    cdef NsqReader x
    memset(out, 0, sizeof(NsqUnitView))
    x.o = o
    x.m = out
    x.f = f
    out.frame = p
    out.size = <uint32_t>n
    if nsq_is_frame(o, p[0]):
        return nsq_read_frame(&x)
    out.kind = <uint8_t>f.kind                  # nsq_frame_size has found it
    if out.kind == NSQ_MAGIC:
        out.name.at = p
        out.name.size = 4
        return OK
    return nsq_read_command(&x)


cdef inline int nsq_read_frame(NsqReader* x) noexcept nogil:
    cdef NsqUnitView* m = x.m
    cdef const uint8_t* p = m.frame
    m.frame_type = <int32_t>load_u32(p + 4)
    m.body.at = p + 8
    m.body.size = m.size - 8
    if m.frame_type != 2:
        m.kind = <uint8_t>(NSQ_RESPONSE + m.frame_type if 0 <= m.frame_type <= 1 else NSQ_FRAME)
        return OK
    m.kind = NSQ_MESSAGE
    if m.body.size < NSQ_MESSAGE_HEADER_SIZE:
        return nsq_fault(x.f, NSQ_MESSAGE, NSQ_CHECK_MESSAGE_TOO_SHORT, NSQ_FIELD_DATA, 8,
                         NSQ_MESSAGE_HEADER_SIZE, m.body.size)
    m.timestamp = <int64_t>load_u64(p + 8)
    m.attempts = load_u16(p + 16)
    m.message_id.at = p + 18
    m.message_id.size = NSQ_MESSAGE_ID_SIZE
    m.body.at = p + 8 + NSQ_MESSAGE_HEADER_SIZE
    m.body.size -= NSQ_MESSAGE_HEADER_SIZE
    return OK


cdef inline bint nsq_is_heartbeat(const Span* data) noexcept nogil:
    return data.size == 11 and memcmp(data.at, b"_heartbeat_", 11) == 0


cdef int nsq_read_command(NsqReader* x) noexcept nogil:
    cdef NsqUnitView* m = x.m
    cdef int body = nsq_commands[m.kind].body
    cdef size_t head = m.size
    cdef NsqWalk walk
    cdef int status
    if body != NSQ_BODY_NONE:
        head = <size_t>(<const uint8_t*>memchr(m.frame, 0x0A, m.size) - m.frame) + 1
    status = nsq_read_line(x, head)
    if status != OK or body == NSQ_BODY_NONE:
        return status
    status = nsq_check_size(x, head)
    m.body.at = m.frame + head + 4
    m.body.size = <uint32_t>(m.size - head - 4)
    if status == OK and body == NSQ_BODY_MESSAGES:
        memset(&walk, 0, sizeof(walk))
        return nsq_read_messages(x, m.frame + m.size, &walk)
    if status == OK and body == NSQ_BODY_JSON and m.body.size:
        return nsq_check_identify(x)
    return status


# ------------------------------------------------------------------------------------------------ lines

cdef int nsq_read_line(NsqReader* x, size_t head) noexcept nogil:
    """Split a line of `head` octets at each single space, and check the words in nsqd's order."""
    cdef NsqUnitView* m = x.m
    cdef const NsqCommandRow* row = &nsq_commands[m.kind]
    cdef const uint8_t* p = m.frame
    cdef const uint8_t* end = p + head - 1
    cdef const uint8_t* space
    cdef Span word
    cdef int status, i
    if end > p and (end - 1)[0] == 0x0D:
        end -= 1
    m.line.at = p
    m.line.size = <uint32_t>(end - p)
    space = <const uint8_t*>memchr(p, 0x20, <size_t>(end - p))
    m.name.at = p
    m.name.size = <uint32_t>((end if space == NULL else space) - p)
    while space != NULL:
        p = space + 1
        space = <const uint8_t*>memchr(p, 0x20, <size_t>(end - p))
        if m.word_count < 2:
            word.at = p
            word.size = <uint32_t>((end if space == NULL else space) - p)
            m.words[m.word_count] = word
        m.word_count += 1
    if m.kind == NSQ_COMMAND:
        return nsq_violation(x, NSQ_CHECK_COMMAND_UNKNOWN, NSQ_FIELD_COMMAND, -1, m.frame)
    if m.word_count < row.required:
        status = nsq_violation(x, NSQ_CHECK_WORDS_MISSING, NSQ_FIELD_PARAMETERS, -1, end)
        if status != OK:
            return status
    if m.kind == NSQ_AUTH and m.word_count:             # the only command that does not ignore extra words
        return nsq_violation(x, NSQ_CHECK_WORDS_TOO_MANY, NSQ_FIELD_PARAMETERS, -1, m.words[0].at)
    if m.kind == NSQ_RDY and m.word_count == 0:
        m.number = 1
        m.has_number = True
    for i in range(2):
        if row.words[i] and <uint32_t>i < m.word_count:
            status = nsq_read_word(x, row.words[i], &m.words[i])
            if status != OK:
                return status
    return OK


cdef inline int nsq_read_word(NsqReader* x, int word, const Span* v) noexcept nogil:
    cdef NsqUnitView* m = x.m
    cdef const uint8_t* bad
    if word == NSQ_WORD_TOPIC:
        m.topic = v[0]
        bad = nsq_name_fault(v.at, v.size)
    elif word == NSQ_WORD_CHANNEL:
        m.channel = v[0]
        bad = nsq_name_fault(v.at, v.size)
    elif word == NSQ_WORD_MESSAGE_ID:
        m.message_id = v[0]
        bad = v.at if v.size != NSQ_MESSAGE_ID_SIZE else NULL
    else:
        bad = nsq_number(v, &m.number)
        m.has_number = bad == NULL
        if bad == NULL:
            return nsq_check_number(x, v)
    if bad == NULL:
        return OK
    return nsq_violation(x, nsq_word_check[word], nsq_word_field[word], -1, bad)


cdef const uint8_t* nsq_name_fault(const uint8_t* p, size_t n) noexcept nogil:
    """Where a topic's or channel's name violates `[.a-zA-Z0-9_-]+(#ephemeral)?`, at most 64 octets; NULL: it is valid."""
    cdef size_t i, size = n
    if n > 10 and memcmp(p + n - 10, b"#ephemeral", 10) == 0:
        size = n - 10
    for i in range(size):
        if not NSQ_NAME_OCTETS[p[i]]:
            return p + i
    return p + NSQ_NAME_MAX if n > NSQ_NAME_MAX else p if n == 0 else NULL


cdef uint8_t[256] NSQ_NAME_OCTETS


cdef int fill_nsq_name_octets() except -1:
    for octet in b".-_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ":
        NSQ_NAME_OCTETS[<uint8_t>octet] = 1
    return 0


fill_nsq_name_octets()


cdef inline const uint8_t* nsq_number(const Span* word, uint64_t* n) noexcept nogil:
    """Digits modulo 2^64, as nsqd reads them; no digits are 0. Returns the first octet that is not a digit; NULL: none."""
    cdef uint32_t i
    n[0] = 0
    for i in range(word.size):
        if not c"0" <= word.at[i] <= c"9":
            return word.at + i
        n[0] = n[0] * 10 + (word.at[i] - 48)
    return NULL


cdef int nsq_check_number(NsqReader* x, const Span* v) noexcept nogil:
    """RDY and DPUB have bounds; the server reduces a timeout of REQ that is too long."""
    cdef NsqUnitView* m = x.m
    cdef int64_t n = <int64_t>m.number
    if m.kind == NSQ_RDY and (n < 0 or (x.o.bounded and n > x.o.server[<int>NSQ_OPTION_MAX_RDY_COUNT])):
        return nsq_violation(x, NSQ_CHECK_RDY_RANGE, NSQ_FIELD_COUNT, -1, v.at)
    if m.kind == NSQ_DPUB:
        n = <int64_t>(m.number * 1000000)               # nsqd counts nanoseconds, in 64 bits
        if n < 0 or (x.o.bounded and n // 1000000 + (n % 1000000 != 0) > x.o.server[<int>NSQ_OPTION_MAX_REQ_TIMEOUT]):
            return nsq_violation(x, NSQ_CHECK_DPUB_RANGE, NSQ_FIELD_MILLISECONDS, -1, v.at)
    return OK


# ------------------------------------------------------------------------------------------------ bodies

cdef int nsq_check_size(NsqReader* x, size_t head) noexcept nogil:
    """The four octets after the line."""
    cdef const NsqCommandRow* row = &nsq_commands[x.m.kind]
    cdef int32_t size = <int32_t>load_u32(x.m.frame + head)
    if size < 0:
        return nsq_fault(x.f, x.m.kind, row.negative_check, NSQ_FIELD_BODY_SIZE, <int64_t>head, 0, 0)
    if size == 0:
        return nsq_violation(x, row.empty_check, NSQ_FIELD_BODY_SIZE, -1, x.m.frame + head)
    if nsq_is_beyond(x.o, row, size):
        return nsq_fault(x.f, x.m.kind, row.limit_check, NSQ_FIELD_BODY_SIZE, <int64_t>head,
                         size, x.o.server[row.limit])
    return OK


cdef int nsq_read_messages(NsqReader* x, const uint8_t* there, NsqWalk* walk) noexcept nogil:
    """Check MPUB's messages, each after its size, as far as `there`; `walk` is where an earlier call stopped."""
    cdef NsqUnitView* m = x.m
    cdef const uint8_t* end = m.frame + m.size
    cdef const uint8_t* p
    cdef int32_t size
    cdef int status = OK
    if walk.at == 0:
        status = nsq_read_count(x, there, walk)
    p = m.frame + walk.at
    while status == OK and walk.index < walk.count:
        if end - p < 4:
            return nsq_message_fault(x, NSQ_CHECK_MPUB_CUT, NSQ_FIELD_BODIES_ITEM, walk.index, p, 4, end - p)
        if there - p < 4:
            return OK
        size = <int32_t>load_u32(p)
        if size < 0:
            return nsq_message_fault(x, NSQ_CHECK_MESSAGE_NEGATIVE, NSQ_FIELD_BODIES_ITEM, walk.index, p, 0, 0)
        if size == 0:
            status = nsq_violation(x, NSQ_CHECK_MESSAGE_EMPTY, NSQ_FIELD_BODIES_ITEM, walk.index, p)
        elif x.o.bounded and size > x.o.server[<int>NSQ_OPTION_MAX_MSG_SIZE]:
            return nsq_message_fault(x, NSQ_CHECK_MESSAGE_TOO_BIG, NSQ_FIELD_BODIES_ITEM, walk.index, p, size,
                                     x.o.server[<int>NSQ_OPTION_MAX_MSG_SIZE])
        p += 4
        if size > end - p:
            return nsq_message_fault(x, NSQ_CHECK_MPUB_CUT, NSQ_FIELD_BODIES_ITEM, walk.index, p, size, end - p)
        if size > there - p:
            return status
        p += size
        walk.at = <size_t>(p - m.frame)
        walk.index += 1
    if status == OK and walk.at and p != end:
        return nsq_message_fault(x, NSQ_CHECK_MPUB_TRAILING, NSQ_FIELD_BODIES, -1, p, 0, 0)
    return status


cdef int nsq_read_count(NsqReader* x, const uint8_t* there, NsqWalk* walk) noexcept nogil:
    """Read MPUB's message count; `walk` is then at the first message, unless the count is incomplete."""
    cdef NsqUnitView* m = x.m
    cdef const uint8_t* p = m.body.at
    cdef int32_t count
    if m.body.size == 0:                                # LAX
        return OK
    if m.body.size < 4:
        return nsq_message_fault(x, NSQ_CHECK_MPUB_NO_COUNT, NSQ_FIELD_MESSAGE_COUNT, -1, p, 4, m.body.size)
    if there - p < 4:
        return OK
    count = <int32_t>load_u32(p)
    m.body.at += 4
    m.body.size -= 4
    if count < 0 or <uint32_t>count > m.body.size // 4 or (
            x.o.bounded and count > (x.o.server[<int>NSQ_OPTION_MAX_BODY_SIZE] - 4) // 5):
        return nsq_message_fault(x, NSQ_CHECK_MPUB_COUNT, NSQ_FIELD_MESSAGE_COUNT, -1, p, 0, 0)
    if x.o.common.max_elements and <uint32_t>count > x.o.common.max_elements:
        return nsq_message_fault(x, NSQ_CHECK_ELEMENTS, NSQ_FIELD_MESSAGE_COUNT, -1, p, count, x.o.common.max_elements)
    m.message_count = <uint32_t>count
    walk.count = count
    walk.at = <size_t>(p + 4 - m.frame)
    return OK if count else nsq_violation(x, NSQ_CHECK_MPUB_EMPTY, NSQ_FIELD_MESSAGE_COUNT, -1, p)


cdef int nsq_message_fault(NsqReader* x, int check, int field, int index, const uint8_t* at, int64_t need,
                           int64_t have) noexcept nogil:
    nsq_fault(x.f, x.m.kind, check, field, <int64_t>(at - x.m.frame), need, have)
    x.f.index = index
    if need:
        x.f.limited_by = NSQ_FIELD_BODY_SIZE if check == NSQ_CHECK_MPUB_CUT else 0
    return x.f.status


cdef int nsq_check_identify(NsqReader* x) noexcept nogil:
    """IDENTIFY's JSON: syntax, the types of the members that nsqd knows, then their values in nsqd's order."""
    cdef NsqUnitView* m = x.m
    cdef NsqJson j
    cdef NsqMember v
    cdef int64_t values[NSQ_MEMBERS]
    cdef const uint8_t* at[NSQ_MEMBERS]
    cdef int row, status
    cdef int begun = nsq_json_begin(&j, m.body.at, m.body.size)
    memset(values, 0, sizeof(values))
    memset(at, 0, sizeof(at))
    while begun == NSQ_JSON_OBJECT and nsq_json_next(&j, &v):
        if x.o.common.max_elements and j.members > x.o.common.max_elements:
            return nsq_message_fault(x, NSQ_CHECK_ELEMENTS, NSQ_FIELD_MEMBERS, -1, v.name.at, j.members, x.o.common.max_elements)
        row = nsq_member_row(&v.name)
        if row < 0 or v.type == NSQ_JSON_NULL:
            continue
        if not nsq_has_type(&v, nsq_members[row].type):
            status = nsq_violation(x, NSQ_CHECK_JSON_TYPE, nsq_members[row].field, -1, v.value.at)
            if status != OK:
                return status
            continue
        values[row] = v.number if v.type == NSQ_JSON_INTEGER else v.type == NSQ_JSON_TRUE
        at[row] = v.value.at
    if j.check:
        return nsq_violation(x, j.check, NSQ_FIELD_BODY, -1, j.at)
    for row in range(NSQ_MEMBERS):
        if nsq_members[row].check and not nsq_is_allowed(x.o, row, values[row]):
            status = nsq_violation(x, nsq_members[row].check, nsq_members[row].field, -1, at[row])
            if status != OK:
                return status
    if x.o.bounded and values[<int>NSQ_MEMBER_FEATURE_NEGOTIATION] and \
            values[<int>NSQ_MEMBER_DEFLATE] and x.o.server[<int>NSQ_OPTION_DEFLATE] and \
            values[<int>NSQ_MEMBER_SNAPPY] and x.o.server[<int>NSQ_OPTION_SNAPPY]:
        return nsq_violation(x, NSQ_CHECK_BOTH_COMPRESSIONS, NSQ_FIELD_BODY, -1, m.body.at)
    return OK


cdef inline bint nsq_has_type(const NsqMember* v, int type) noexcept nogil:
    if type == NSQ_TYPE_STRING:
        return v.type == NSQ_JSON_STRING
    if type == NSQ_TYPE_BOOLEAN:
        return v.type == NSQ_JSON_TRUE or v.type == NSQ_JSON_FALSE
    return v.type == NSQ_JSON_INTEGER and v.in_range and (type == NSQ_TYPE_INT or -0x80000000 <= v.number <= 0x7FFFFFFF)


cdef inline bint nsq_is_allowed(const NsqOptions* o, int member, int64_t value) noexcept nogil:
    """Check a value as nsqd does. Bounds that are options of the server apply only if these are known."""
    cdef const NsqMemberRow* row = &nsq_members[member]
    cdef int64_t low = row.low if row.low >= 0 else o.server[-1 - row.low] if o.bounded else 0
    cdef int64_t high = row.high if row.high >= 0 else o.server[-1 - row.high] if o.bounded else 0x7FFFFFFFFFFFFFFF
    return low <= value <= high or (row.special[0] <= 0 and value == row.special[0]) or (
        row.special[1] <= 0 and value == row.special[1])


# ------------------------------------------------------------------------------------------------ faults and notes

cdef int nsq_fault(Fault* f, int kind, int check, int field, int64_t offset, int64_t need, int64_t have) noexcept nogil:
    fault(f, nsq_checks[check].status, check, field, offset, need, have, 0)
    f.kind = kind
    return f.status


cdef int nsq_violation(NsqReader* x, int check, int field, int index, const uint8_t* at) noexcept nogil:
    """Report a violation at `at`. OK: LAX noted it, continue."""
    cdef const NsqCheckRow* row = &nsq_checks[check]
    cdef int status = violation(&x.o.common, &x.m.notes, x.f, row.status, row.lax, check, field, index,
                                <int64_t>(at - x.m.frame))
    if status != OK:
        x.f.kind = x.m.kind
    return status


cdef const char* nsq_spec_of(const Fault* f) noexcept nogil:
    """The heading of the specification: the command's heading if the rule applies to several."""
    cdef const char* spec = nsq_check_spec[f.check]
    if spec[0] != c"{":
        return spec
    return nsq_kind_name[f.kind if 0 <= f.kind < NSQ_KINDS else 0]


cdef int nsq_reply_to(const Fault* f) noexcept nogil:
    """The row of nsq_replies that nsqd answers; -1: it only closes."""
    return nsq_checks[f.check].reply


cdef ProtocolTables NSQ_TABLES
NSQ_TABLES.name = "nsq"
NSQ_TABLES.names = nsq_check_name
NSQ_TABLES.text = nsq_check_text
NSQ_TABLES.path = nsq_field_path
NSQ_TABLES.spec_of = nsq_spec_of
NSQ_TABLES.reply_to = nsq_reply_to
NSQ_TABLES.replies = nsq_replies
