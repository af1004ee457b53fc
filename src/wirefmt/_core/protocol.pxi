# The functions of a protocol that captures call: recognise a stream, frame it, put its messages into the message table.
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New

cdef const char* PROTOCOL_CAPSULE = "wirefmt.Protocol"


cdef object protocol_capsule(const Protocol* row):
    """A protocol's row as a Python object, which its module exports. The row is never freed."""
    return PyCapsule_New(<void*>row, PROTOCOL_CAPSULE, NULL)


cdef const Protocol* protocol_row(object capsule) except NULL:
    """The row in a capsule that `protocol_capsule` made. ValueError: it is another capsule."""
    return <const Protocol*>PyCapsule_GetPointer(capsule, PROTOCOL_CAPSULE)


cdef void* open_state(const Protocol* protocol) noexcept nogil:
    """The state of a new connection, all zero; NULL: out of memory."""
    cdef size_t size = max(protocol.state_size, sizeof(ProtocolState))
    cdef ProtocolState* state = <ProtocolState*>calloc(1, size)
    if state != NULL:
        state.buffered = <int64_t>size + BLOCK_OCTETS
    return state


cdef void close_state(const Protocol* protocol, void* state) noexcept nogil:
    if state != NULL and protocol.clear != NULL:
        protocol.clear(state)
    free(state)
