# PHPMQ: nothing answers a message of a client; a delivery is acknowledged, put back or given up by its message identifier.

cdef void phpmq_message(OpenOperations e, Conn* c, const Row* r, int kind, int direction, Op* o) noexcept nogil:
    cdef Span id = text_of(r, T_MESSAGE_ID)
    cdef uint64_t key = hash_span(0, &id)
    cdef Op* found
    if kind == K_PHP_SEND:
        begin_op(o, c, r, O_PUBLISH, kind)
        c.numbers[N_PUBLISHED] += 1
        e.emit_alone(o)
    elif kind == K_PHP_CONSUME:
        begin_op(o, c, r, O_CONSUME, kind)
        o.texts[Z_QUEUE] = o.texts[Z_DESTINATION]
        c.consumers += 1
        most(c, N_CONSUMERS, c.consumers)
        e.emit_alone(o)
    elif kind == K_PHP_MESSAGE:
        begin_op(o, c, r, O_DELIVER, kind)
        o.texts[Z_QUEUE] = o.texts[Z_DESTINATION]
        c.numbers[N_DELIVERED] += 1
        found = e.find_op(c, S_DELIVER, 1, 0, key)
        if found != NULL:
            e.complete(found, E_SUPERSEDED, NULL)
        e.open_op(o, S_DELIVER, 0, key)
    elif kind == K_PHP_ACKNOWLEDGEMENT or kind == K_PHP_REQUEUE or kind == K_PHP_DEAD_LETTER:
        found = e.find_op(c, S_DELIVER, 1, 0, key)
        if found != NULL:
            e.complete(found, E_ACKNOWLEDGED if kind == K_PHP_ACKNOWLEDGEMENT else
                       E_REQUEUED if kind == K_PHP_REQUEUE else E_REJECTED, r)
