# What message classes of all protocols share: the block of octets they lie in, their repr.
#
# A message holds the immutable block (bytes) that it was decoded from and decodes from it on first use. Message
# classes have no common base: a freelist needs a class without one.
from cpython.object cimport PyObject, PyTypeObject, newfunc
from cpython.ref cimport Py_INCREF, Py_XDECREF

from wirefmt.framing import NEED_DATA as NEED_DATA_VALUE, Limits
from wirefmt.strictness import Note, Strictness


# ------------------------------------------------------------------------------------------------ values seen before
#
# Streams repeat themselves: topics, content types and user properties are few, messages many. Small values are kept
# in a table, where the octets they come from say where; each slot holds the last value that fell to it. What is
# found there is one object for all messages, and costs a comparison. Without a GIL nothing is shared.

cdef SharedSlot[SHARED_SLOTS] SHARED_VALUES


cdef void share(SharedSlot* slot, int kind, const uint8_t* p, size_t size, object value) noexcept:
    cdef PyObject* before = slot.value
    Py_INCREF(value)
    slot.value = <PyObject*>value
    slot.kind = <uint8_t>kind
    slot.size = <uint8_t>size
    memcpy(slot.octets, p, size)
    Py_XDECREF(before)


# ------------------------------------------------------------------------------------------------ reprs

cdef enum:
    SHOWN_OCTETS = 32           # of a payload in a repr


cdef str shown_octets(object octets):
    """Octets as Python literals, cut after SHOWN_OCTETS: `b'first' b'... 968 more'` is still an expression."""
    cdef bytes head = bytes(octets[:SHOWN_OCTETS])
    cdef Py_ssize_t more = len(octets) - len(head)
    return repr(head) if more <= 0 else f"{head!r} b'... {more} more'"


cdef str shown_encoded(object octets):
    """shown_octets of octets that may have names and values in them: asterisks if a secret could be among those shown."""
    cdef bytes head = bytes(octets[:SHOWN_OCTETS])
    if not holds_secret_word(<const uint8_t*>PyBytes_AS_STRING(head), <size_t>PyBytes_GET_SIZE(head)):
        return shown_octets(octets)
    return f"{SECRET_SHOWN_OCTETS!r} b'... {len(octets)} in all'"


# Objects that the core makes without their constructor, of a class that is looked up: `cls.__new__` is the constructor
# (seal.pxi). Of a class known at compile time `X.__new__(X)` does the same.

cdef int set_factories(Factory* out, tuple classes) except -1:
    """Those of classes in a row; None: there is none."""
    for i, cls in enumerate(classes):
        if cls is not None:
            out[<int>i] = factory_of(cls)
    return 0


cdef Factory factory_of(object cls) noexcept:
    cdef Factory made
    made.cls = <PyObject*>cls
    made.make = (<PyTypeObject*>cls).tp_new
    return made


cdef object bare_subclass(const Factory* f, object cls):
    """One of a Python class that is derived from the factory's."""
    if not isinstance(cls, type) or not issubclass(cls, <object>f.cls):
        raise TypeError(f"{cls!r} is not a subclass of {(<object>f.cls).__name__}")
    return f.make(<type>cls, <PyObject*>NO_ARGUMENTS, NULL)


cdef tuple NO_ARGUMENTS = ()


# Calls of classes whose constructors take keywords that a table names: `tp_vectorcall` is a function of ours (set_vectorcall),
# which finds the values on the caller's stack. No dict is made of them. Names of keywords are interned: mostly their pointers
# are equal.

cdef object construct_slowly(object cls, PyObject** args, Py_ssize_t count, PyObject* kwnames):
    """A call of a class without `tp_vectorcall`: for what ours does not take, errors most of all."""
    cdef Py_ssize_t i, n = 0 if kwnames == NULL else length_of(kwnames)
    cdef tuple positional = tuple([<object>args[i] for i in range(count)])
    cdef dict named = {<object>borrowed_item(kwnames, i): <object>args[count + i] for i in range(n)}
    return (<PyTypeObject*>cls).tp_new(<type>cls, <PyObject*>positional, <PyObject*>named)


cdef object STRICT_MODE = Strictness.STRICT


cdef bint is_strict(object strictness) except? -1:
    return strictness is STRICT_MODE or Strictness(strictness) is STRICT_MODE


cdef uint32_t DEFAULT_FRAME_SIZE = Limits().frame_size
cdef uint32_t DEFAULT_ELEMENTS = Limits().elements
