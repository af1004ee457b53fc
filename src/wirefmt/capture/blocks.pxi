# Memory for the chunks of a file, which is used again: fresh memory costs page faults, a tenth of the CPU time of two threads.

cdef extern from "Python.h":
    ctypedef struct PyListObject:
        PyObject** ob_item
    Py_ssize_t references "Py_REFCNT"(PyObject* o)


cdef class Blocks:
    """Chunks of `size` bytes of a file. The bytes of a chunk stay unchanged as long as anybody holds them."""
    cdef list blocks
    cdef Py_ssize_t size
    cdef bint busy

    def __init__(self, Py_ssize_t size):
        self.size = size
        self.blocks = []

    def read(self, file not None):
        """The next bytes of an unbuffered file of the operating system, as a view of bytes; empty: the end."""
        cdef bytes block = None
        cdef Py_ssize_t i, n = 0
        begin_call(&self.busy)
        try:
            for i in range(len(self.blocks)):
                if references((<PyListObject*>self.blocks).ob_item[i]) == 1:        # the list's
                    block = <bytes>self.blocks[i]
                    break
            if block is None:
                block = PyBytes_FromStringAndSize(NULL, self.size)
                self.blocks.append(block)
            with PyMemoryView_FromMemory(PyBytes_AS_STRING(block), self.size, PyBUF_WRITE) as view:
                n = file.readinto(view) or 0
            return memoryview(block)[:n]
        finally:
            self.busy = False
