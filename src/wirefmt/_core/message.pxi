# What message classes of all protocols share: values, reprs, objects without a constructor call, notes.
#
# A message holds the immutable block (bytes) that it was decoded from and decodes from it on first use. Message
# classes have no common base: a freelist needs a class without one.
from cpython.object cimport PyObject, PyTypeObject, newfunc
from cpython.ref cimport Py_INCREF, Py_XDECREF

from sys import intern

from wirefmt.framing import Limits
from wirefmt.strictness import Note, Strictness


# ------------------------------------------------------------------------------------------------ values seen before
#
# Streams repeat topics, content types and user properties. A hash table keeps small values by their octets; each slot has the
# last value with that hash that was looked up twice in turn. A value that is found is one object for many messages and costs one
# comparison. Builds without a GIL share nothing.

cdef SharedSlot[SHARED_SLOTS] SHARED_VALUES


cdef void share(SharedSlot* slot, int kind, const uint8_t* p, size_t size, object value) noexcept:
    """Keep a value that was not in the slot where it was just looked up, if it is the second time in turn: most values that come
    only once, like identifiers, are not kept, and replace none."""
    cdef PyObject* before = slot.value
    if slot.missed != slot.sought:
        slot.missed = slot.sought
        return
    Py_INCREF(value)
    slot.value = <PyObject*>value
    slot.kind = <uint8_t>kind
    slot.size = <uint8_t>size
    memcpy(slot.octets, p, size)
    Py_XDECREF(before)


# Where a field, or an entry of a map, usually has the value that it had in the message before, one comparison finds it
# (is_recent). A place whose values differ keeps a new one only now and then.

cdef void keep_recent(Recent* r, const uint8_t* p, size_t size, object value) noexcept:
    """Keep a value in place of the last; will_keep_recent() has said so."""
    cdef PyObject* before = r.value
    Py_INCREF(value)
    r.value = <PyObject*>value
    r.size = <uint8_t>size
    r.misses = 0
    memcpy(r.octets, p, size)
    Py_XDECREF(before)


# ------------------------------------------------------------------------------------------------ reprs

cdef enum:
    SHOWN_OCTETS = 32           # of a payload in a repr


cdef str shown_octets(object octets):
    """Octets as Python literals, truncated after SHOWN_OCTETS: `b'first' b'... 968 more'` is still an expression."""
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
# (constructors.pxi). Of a class known at compile time `X.__new__(X)` does the same.

cdef int set_factories(Factory* out, tuple classes) except -1:
    """Fill `out` with the factories of the classes. None leaves an entry empty."""
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
    """An object of a Python class that is derived from the factory's class."""
    if not isinstance(cls, type) or not issubclass(cls, <object>f.cls):
        raise TypeError(f"{cls!r} is not a subclass of {(<object>f.cls).__name__}")
    return f.make(<type>cls, <PyObject*>NO_ARGUMENTS, NULL)


cdef tuple NO_ARGUMENTS = ()


cdef int add_member(object cls, PyMemberDef* member, const char* name, size_t offset) except -1:
    """Add an attribute to a class: the object owned at `offset`, which Python reads without a call. `member` and `name` are never
    freed."""
    member.name = name
    member.type = T_OBJECT_EX
    member.offset = <Py_ssize_t>offset
    member.flags = READONLY
    return wirefmt_set_attribute(cls, intern(name.decode("ascii")), PyDescr_NewMember(<PyTypeObject*>cls, member))


cdef size_t place_in(object owner, object value) except 0:
    """The offset of an object's only reference to a value."""
    cdef size_t at = sizeof(PyObject)
    while (<void**>(<char*><void*>owner + at))[0] != <void*>value:
        at += sizeof(void*)
    return at


# Constructors that are called for every message: `tp_vectorcall` of such a class (set_vectorcall) reads the values from the
# caller's stack, without a dict (take_keywords). Keyword names are interned, so comparing pointers usually suffices.

cdef object construct_slowly(object cls, PyObject** args, size_t nargsf, PyObject* kwnames):
    """Call a class by `tp_new`, for arguments that its `tp_vectorcall` does not handle, above all invalid ones."""
    cdef Py_ssize_t count = PyVectorcall_NARGS(nargsf)
    cdef Py_ssize_t i, n = 0 if kwnames == NULL else length_of(kwnames)
    cdef tuple positional = tuple([<object>args[i] for i in range(count)])
    cdef dict named = {<object>borrowed_item(kwnames, i): <object>args[count + i] for i in range(n)}
    return (<PyTypeObject*>cls).tp_new(<type>cls, <PyObject*>positional, <PyObject*>named)


cdef object STRICT_MODE = Strictness.STRICT


cdef bint is_strict(object strictness) except? -1:
    return strictness is STRICT_MODE or Strictness(strictness) is STRICT_MODE


cdef uint32_t DEFAULT_FRAME_SIZE = Limits().frame_size
cdef uint32_t DEFAULT_ELEMENTS = Limits().elements


# ------------------------------------------------------------------------------------------------ messages of any protocol
#
# These functions handle messages of all protocols, by the protocol's MessageOps. What runs for every message (decode, the
# frames of a Decoder, access to fields) does not use them: it is compiled into the codec.

cdef tuple notes_of(const MessageOps* ops, const Violation* found, int count, const Fault* f):
    """The first `count` violations that were found, at most NOTES_SHOWN, as Notes."""
    cdef Fault at = f[0]
    cdef list out = []
    cdef int i
    for i in range(min(count, NOTES_SHOWN)):
        at.check = found[i].check
        at.field = found[i].field
        out.append(Note(
            ops.tables.names[at.check].decode("ascii"), field_path(ops.tables, at.field, found[i].index),
            found[i].offset, ops.tables.text[at.check].decode("utf-8"), spec_of(ops.tables, &at).decode("ascii")))
    return tuple(out)


cdef tuple message_notes(const MessageOps* ops, const uint8_t* p, size_t n, CommonOptions* o):
    """The `notes` of a message: the violations that LAX accepted when it was decoded with these options."""
    cdef Violation[NOTES_SHOWN] found
    cdef Notes notes
    cdef Fault f
    memset(&f, 0, sizeof(Fault))
    memset(&notes, 0, sizeof(Notes))
    o.strict = 0
    o.notes = found
    o.notes_capacity = NOTES_SHOWN
    ops.review(p, n, o, &notes, &f)
    return notes_of(ops, found, notes.count, &f)


cdef object read_message(const MessageOps* ops, bytes block, const CommonOptions* o):
    """The message that is all of `block`: of a pickle, or of a larger block. Raises DecodeError."""
    cdef Fault f
    made = ops.read(block, <const uint8_t*>PyBytes_AS_STRING(block), <size_t>PyBytes_GET_SIZE(block), o, &f)
    if made is None:
        raise_fault(ops.tables, &f, 0)
    return made
