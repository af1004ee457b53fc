# Texts that many sides of paths share.

cdef Name* name_of(PathTable* t, const Span* s) noexcept nogil:
    """NULL: an absent text, or no memory."""
    cdef uint64_t hash
    cdef Name* n
    if s.at == NULL:
        return NULL
    hash = hash_span(s.size, s)
    n = <Name*>first_entry(&t.names, hash)
    while n != NULL:
        if n.entry.hash == hash and n.size == s.size and same_octets(<uint8_t*>n + sizeof(Name), s.at, s.size):
            n.users += 1
            return n
        n = <Name*>n.entry.chain
    n = <Name*>malloc(sizeof(Name) + s.size)
    if n == NULL:
        t.no_memory += 1
        return NULL
    n.entry.hash = hash
    n.has_place = False
    n.users = 1
    n.size = s.size
    memcpy(<uint8_t*>n + sizeof(Name), s.at, s.size)
    t.octets += <int64_t>(sizeof(Name) + s.size) + BLOCK_OCTETS
    add_entry(&t.names, &n.entry)
    return n


cdef void drop_name(PathTable* t, Name* n) noexcept nogil:
    if n != NULL:
        n.users -= 1
        if n.users == 0:
            remove_entry(&t.names, &n.entry)
            t.octets -= <int64_t>(sizeof(Name) + n.size) + BLOCK_OCTETS
            free(n)


cdef inline Name* shared_name(PathTable* t, Name** last, const Span* s) noexcept nogil:
    """name_of for a text that is often the same as the one before."""
    cdef Name* n = last[0]
    if s.at == NULL:
        return NULL
    if n != NULL and n.size == s.size and same_octets(<uint8_t*>n + sizeof(Name), s.at, s.size):
        n.users += 1
        return n
    n = name_of(t, s)
    if n != NULL:
        drop_name(t, last[0])
        last[0] = n
        n.users += 1
    return n


cdef bint skip(Span* s, const char* prefix) noexcept nogil:
    """Take a prefix off."""
    cdef uint32_t n = <uint32_t>strlen(prefix)
    if s.size <= n or memcmp(s.at, prefix, n):
        return False
    s.at += n
    s.size -= n
    return True


cdef inline uint64_t present(uint64_t hash) noexcept nogil:
    """A hash that is not 0, which means that there is nothing."""
    return hash if hash else 1


cdef uint64_t place_of(const Span* address) noexcept nogil:
    """Hash of a destination as all protocols of a server name it: `a/b` of MQTT is `a.b` of AMQP; the addresses of AMQP 1.0 name
    a queue, or an exchange and a routing key (RabbitMQ, address formats 1 and 2), or a topic (Artemis, ActiveMQ)."""
    cdef Span s = address[0]
    cdef uint8_t[NAME_OCTETS] name
    cdef uint32_t i, n = 0
    cdef int high, low
    if s.size == 0:
        return 0
    if skip(&s, b"/exchanges/") or skip(&s, b"/exchange/"):
        for i in range(s.size):
            if s.at[i] == c"/" and i + 1 < s.size:      # the routing key
                s.at += i + 1
                s.size -= i + 1
                break
    elif not (skip(&s, b"/queues/") or skip(&s, b"/queue/") or skip(&s, b"/amq/queue/") or skip(&s, b"/topic/")):
        if not skip(&s, b"topic://"):
            skip(&s, b"queue://")
    i = 0
    while i < s.size and n < NAME_OCTETS:
        name[n] = s.at[i]
        if name[n] == c"/":
            name[n] = c"."
        elif name[n] == c"%" and i + 2 < s.size:        # percent-encoded
            high = hex_digit(s.at[i + 1])
            low = hex_digit(s.at[i + 2])
            if high != NOT_HEX and low != NOT_HEX:
                name[n] = <uint8_t>(high << 4 | low)
                i += 2
        n += 1
        i += 1
    s.at = name
    s.size = n
    return present(hash_span(7, &s))


cdef inline uint64_t place_named(Name* n) noexcept nogil:
    """place_of a name; 0: the name is absent."""
    cdef Span s
    if n == NULL:
        return 0
    if not n.has_place:
        s.at = <const uint8_t*>n + sizeof(Name)
        s.size = n.size
        n.place = place_of(&s)
        n.has_place = True
    return n.place


cdef inline uint64_t hashed(uint64_t seed, const Span* s) noexcept nogil:
    return present(hash_span(seed, s)) if s.size else 0


cdef inline uint64_t name_hash(uint64_t seed, const Name* n) noexcept nogil:
    return present(avalanche(n.entry.hash ^ seed)) if n != NULL and n.size else 0


cdef void free_side(PathTable* t, Side* s) noexcept nogil:
    cdef int i
    for i in range(G_COUNT):
        drop_name(t, s.names[i])
    t.octets -= s.size
    give_back(&t.pool, s, <size_t>s.size - BLOCK_OCTETS)
