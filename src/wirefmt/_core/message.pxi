# What message classes of all protocols share: the block of octets they lie in, their repr, their public name.
#
# A message holds the immutable block (bytes) that it was decoded from and decodes from it on first use. Message
# classes have no common base: a freelist needs a class without one.
#
# Uses: words, seed, secrets. Included by _core.pyx.
from cpython.object cimport PyObject, PyTypeObject, newfunc
from cpython.ref cimport Py_INCREF, Py_XDECREF

from wirefmt.framing import NEED_DATA as NEED_DATA_VALUE, Limits
from wirefmt.strictness import Note, Strictness


cdef extern from "Python.h":
    object PyUnicode_New(Py_ssize_t size, Py_UCS4 maxchar)
    void* PyUnicode_DATA(object text)
    void PyObject_GC_UnTrack(void* o)       # of a tuple that cannot be part of a cycle: the collector need not find that out


cdef extern from *:
    """
    #ifdef Py_GIL_DISABLED
    #define WIREFMT_SHARES_VALUES 0
    #else
    #define WIREFMT_SHARES_VALUES 1
    #endif
    """
    enum: WIREFMT_SHARES_VALUES


# ------------------------------------------------------------------------------------------------ values seen before
#
# Streams repeat themselves: topics, content types and user properties are few, messages many. Small values are kept
# in a table, where the octets they come from say where; each slot holds the last value that fell to it. What is
# found there is one object for all messages, and costs a comparison. Without a GIL nothing is shared.

cdef enum:
    SHARED_SLOTS = 1024         # a power of two
    SHARED_OCTETS = 54          # longer values are not kept


cdef struct SharedSlot:
    PyObject* value             # owned; NULL: free
    uint8_t kind, size
    uint8_t octets[SHARED_OCTETS]


cdef SharedSlot[SHARED_SLOTS] SHARED_VALUES


cdef inline SharedSlot* shared_slot(int kind, const uint8_t* p, size_t size) noexcept nogil:
    """The slot of a value that is made of `size` octets (at most SHARED_OCTETS); `kind` tells apart what they mean."""
    return &SHARED_VALUES[hash_octets(HASH_KEY[1] ^ (<uint64_t>kind << 8 | size), p, size) >> 54]


cdef inline bint is_held(const SharedSlot* slot, int kind, const uint8_t* p, size_t size) noexcept nogil:
    return slot.value != NULL and slot.size == size and slot.kind == kind and same_octets(slot.octets, p, size)


cdef void share(SharedSlot* slot, int kind, const uint8_t* p, size_t size, object value) noexcept:
    cdef PyObject* before = slot.value
    Py_INCREF(value)
    slot.value = <PyObject*>value
    slot.kind = <uint8_t>kind
    slot.size = <uint8_t>size
    memcpy(slot.octets, p, size)
    Py_XDECREF(before)


# ------------------------------------------------------------------------------------------------ octets -> values

cdef inline str text_of(const uint8_t* p, uint32_t size):
    """A string whose UTF-8 has been checked. Most are ASCII, and short: those are copied without more ado."""
    if not is_ascii(p, size):
        return PyUnicode_DecodeUTF8(<const char*>p, size, NULL)
    return ascii_text(p, size)


cdef inline str ascii_text(const uint8_t* p, uint32_t size):
    """A string that is known to be ASCII."""
    cdef object text
    if size < 2:                            # those exist already
        return PyUnicode_DecodeUTF8(<const char*>p, size, NULL)
    text = PyUnicode_New(size, 127)
    memcpy(PyUnicode_DATA(text), p, size)
    return <str>text


cdef inline bytes octets_of(const uint8_t* p, uint32_t size):
    return PyBytes_FromStringAndSize(<const char*>p, size)


cdef enum:
    SHARED_TEXT = 0             # kind of values that are the text of their octets; the other kinds are the protocols'


cdef inline str shared_text(const uint8_t* p, uint32_t size):
    """As text_of, for text that streams repeat: one object for many messages, if it is short."""
    cdef SharedSlot* slot
    if size == 0 or size > SHARED_OCTETS or not WIREFMT_SHARES_VALUES:
        return text_of(p, size)
    slot = shared_slot(SHARED_TEXT, p, size)
    if is_held(slot, SHARED_TEXT, p, size):
        return <str>slot.value
    text = text_of(p, size)
    share(slot, SHARED_TEXT, p, size, text)
    return text


# ------------------------------------------------------------------------------------------------ names

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


# Attributes of classes of the core that come from a table: getters made of one function and a number, and constants.

cdef extern from *:
    """
    static int wirefmt_set_attribute(PyObject *type, PyObject *name, PyObject *value) {
        int done = PyDict_SetItem(((PyTypeObject *)type)->tp_dict, name, value);
        PyType_Modified((PyTypeObject *)type);
        return done;
    }
    """
    int wirefmt_set_attribute(object cls, object name, object value) except -1     # of a class of the core


cdef extern from "Python.h":
    ctypedef struct PyGetSetDef:
        const char* name
        object (*get)(object self, void* closure)
        void* closure
    object PyDescr_NewGetSet(PyTypeObject* type, PyGetSetDef* definition)


cdef extern from "structmember.h":
    ctypedef struct PyMemberDef:
        const char* name
        int type
        Py_ssize_t offset
        int flags
    object PyDescr_NewMember(PyTypeObject* type, PyMemberDef* definition)
    enum: T_OBJECT_EX
    enum: READONLY


cdef int name_class(object cls, const char* name) except -1:
    """Give a class of the core the module and name that users see. `name` lives for ever."""
    (<PyTypeObject*>cls).tp_name = name
    return 0


# Objects that the core makes without their constructor, of a class that is looked up: `cls.__new__` is the constructor
# (seal.pxi). Of a class known at compile time `X.__new__(X)` does the same.

cdef struct Factory:
    PyObject* cls               # lives for ever
    newfunc make                # allocates; all fields are zero


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


cdef inline object bare_object(const Factory* f):
    return f.make(<type>f.cls, <PyObject*>NO_ARGUMENTS, NULL)


cdef object bare_subclass(const Factory* f, object cls):
    """One of a Python class that is derived from the factory's."""
    if not isinstance(cls, type) or not issubclass(cls, <object>f.cls):
        raise TypeError(f"{cls!r} is no {(<object>f.cls).__name__}")
    return f.make(<type>cls, <PyObject*>NO_ARGUMENTS, NULL)


cdef tuple NO_ARGUMENTS = ()


cdef enum:
    NOTES_SHOWN = 64            # of what LAX let pass in one message


cdef object STRICT_MODE = Strictness.STRICT


cdef bint is_strict(object strictness) except? -1:
    return strictness is STRICT_MODE or Strictness(strictness) is STRICT_MODE


cdef uint32_t DEFAULT_FRAME_SIZE = Limits().frame_size
cdef uint32_t DEFAULT_ELEMENTS = Limits().elements
