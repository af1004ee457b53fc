# What a capture asks of a protocol: how a stream of one is known, framed, and put into the message table.
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New

cdef const char* PROTOCOL_CAPSULE = "wirefmt.Protocol"


cdef object protocol_capsule(const Protocol* row):
    """A protocol's row as a Python object, which its module exports. The row lives for ever."""
    return PyCapsule_New(<void*>row, PROTOCOL_CAPSULE, NULL)


cdef const Protocol* protocol_row(object capsule) except NULL:
    """The row in a capsule that `protocol_capsule` made. ValueError: it is another capsule."""
    return <const Protocol*>PyCapsule_GetPointer(capsule, PROTOCOL_CAPSULE)
