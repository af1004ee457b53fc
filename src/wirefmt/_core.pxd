# The kernel for other modules: types, functions called across modules, and small inline functions, which are compiled into
# the modules that use them, so that no call per field crosses a module. It consists of four headers, each with a section per
# room of _core.pyx. All their names belong to wirefmt._core: a module cimports those that it needs.
cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject, PyTypeObject, newfunc
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, strlen

from wirefmt._core.be cimport store_u16, store_u32
from wirefmt._core.cursor cimport Span
from wirefmt._core.octets cimport BLOCK_OCTETS, Octets, add_octets, add_u8
from wirefmt._core.status cimport CommonOptions, Fault, Notes, Violation
from wirefmt._core.text cimport NOT_HEX, hex_digit
from wirefmt._core.utf8 cimport UTF8_OK, check_utf8, is_utf8
from wirefmt._core.varint cimport store_varint, varint_size
from wirefmt._core.words cimport hash_octets, is_ascii, same_octets

# GENERATED from wirefmt/spec/secrets.py
include "_core/secrets_table.pxi"
# GENERATED from wirefmt/spec/columns.py
include "_core/table_columns.pxi"
# faults, values, what message objects, Decoders and connections share
include "_core/objects_head.pxi"
# columns while they are filled
include "_core/columns_head.pxi"
# columns of the caller
include "_core/source_head.pxi"
# the message table, and what a capture asks of a protocol
include "_core/table_head.pxi"
