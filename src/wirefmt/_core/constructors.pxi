# Python code makes objects of the core only by constructors: `cls.__new__(cls)`, copyreg and hostile pickles cannot make an
# object whose C fields are not set, so methods need not check.
#
# Cython gives each class a `tp_new` that allocates an object with all fields zero, and an `__init__` that fills them.
# Python can call the first without the second, and the second twice. `finish_module`, the last line of every module, therefore
# changes its classes (it also sets the package of classes and functions to the public one):
#
# - `tp_new` allocates and fills in one step, with its arguments (`wirefmt_new`); that of a class without a constructor raises
#   TypeError. `tp_init` does nothing, and `__init__` of an existing object raises TypeError.
# - Methods check the type of `self`, as methods of classes written in C do. Cython's functions do not.
#
# The core makes objects without a constructor call: `X.__new__(X)` of a class known at compile time is a direct call that
# this does not affect; a Factory (message.pxi) does it for a class that is looked up.
cdef extern from *:
    """
    typedef struct {
        PyTypeObject *type;
        newfunc make;           /* allocates */
        initproc fill;          /* the constructor; NULL: the class has none */
        vectorcallfunc call;    /* both, without a tuple and a dict; NULL: the class has no such function */
    } WirefmtClass;

    #define WIREFMT_CLASSES 1024        /* a power of two, at least twice the number of classes */
    static WirefmtClass wirefmt_classes[WIREFMT_CLASSES];
    static int wirefmt_class_count = 0;

    /* The entry of a class, or the free one where it would be. */
    static WirefmtClass *wirefmt_class_at(const PyTypeObject *type) {
        size_t i = ((size_t)type >> 4) * 0x9E3779B1u;
        while (wirefmt_classes[i & (WIREFMT_CLASSES - 1)].type != NULL &&
               wirefmt_classes[i & (WIREFMT_CLASSES - 1)].type != type)
            i++;
        return &wirefmt_classes[i & (WIREFMT_CLASSES - 1)];
    }

    static PyObject *wirefmt_explain = NULL;    /* _explained(class, text), borrowed */

    /* Cython's errors of arguments name `__init__` and no class. */
    static void wirefmt_reword(PyTypeObject *type) {
        PyObject *kind, *error, *trace, *text, *better = NULL;
        PyErr_Fetch(&kind, &error, &trace);
        PyErr_NormalizeException(&kind, &error, &trace);
        text = PyObject_Str(error);
        if (text != NULL)
            better = PyObject_CallFunctionObjArgs(wirefmt_explain, (PyObject *)type, text, NULL);
        Py_XDECREF(text);
        if (better == NULL || better == Py_None) {
            Py_XDECREF(better);
            PyErr_Restore(kind, error, trace);
            return;
        }
        PyErr_SetObject(PyExc_TypeError, better);
        Py_DECREF(better);
        Py_XDECREF(kind);
        Py_XDECREF(error);
        Py_XDECREF(trace);
    }

    /* tp_vectorcall of a class that has one. */
    static PyObject *wirefmt_call(PyObject *type, PyObject *const *args, size_t nargsf, PyObject *names) {
        PyObject *made = wirefmt_class_at((PyTypeObject *)type)->call(type, args, nargsf, names);
        if (made == NULL && wirefmt_explain != NULL && PyErr_ExceptionMatches(PyExc_TypeError))
            wirefmt_reword((PyTypeObject *)type);
        return made;
    }

    static PyObject *wirefmt_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
        const PyTypeObject *base = type;
        const WirefmtClass *entry = wirefmt_class_at(base);
        PyObject *made;
        while (entry->type == NULL && base->tp_base != NULL) {     /* a subclass written in Python: its base of the core */
            base = base->tp_base;
            entry = wirefmt_class_at(base);
        }
        if (entry->fill == NULL) {
            PyErr_Format(PyExc_TypeError, "cannot create '%.100s' instances", type->tp_name);
            return NULL;
        }
        made = entry->make(type, args, kwargs);
        if (made != NULL && entry->fill(made, args, kwargs) < 0) {
            Py_CLEAR(made);
            if (wirefmt_explain != NULL && PyErr_ExceptionMatches(PyExc_TypeError))
                wirefmt_reword(type);
        }
        return made;
    }

    /* `tp_new` of a class from which classes of other modules are derived: their `tp_new` calls it to allocate. For the class
       itself, and for Python classes derived from it, it is wirefmt_new. Python code cannot make objects of the other derived
       classes with it: `B.__new__(D)` is refused because their tp_new differs. */
    #define WIREFMT_BASES 5
    static PyTypeObject *wirefmt_bases[WIREFMT_BASES];
    static int wirefmt_base_count = 0;

    static PyObject *wirefmt_new_of(int i, PyTypeObject *type, PyObject *args, PyObject *kwargs) {
        const PyTypeObject *of = type;
        while (of->tp_flags & Py_TPFLAGS_HEAPTYPE)
            of = of->tp_base;
        if (of == wirefmt_bases[i])
            return wirefmt_new(type, args, kwargs);
        return wirefmt_class_at(wirefmt_bases[i])->make(type, args, kwargs);
    }
    static PyObject *wirefmt_new_0(PyTypeObject *t, PyObject *a, PyObject *k) { return wirefmt_new_of(0, t, a, k); }
    static PyObject *wirefmt_new_1(PyTypeObject *t, PyObject *a, PyObject *k) { return wirefmt_new_of(1, t, a, k); }
    static PyObject *wirefmt_new_2(PyTypeObject *t, PyObject *a, PyObject *k) { return wirefmt_new_of(2, t, a, k); }
    static PyObject *wirefmt_new_3(PyTypeObject *t, PyObject *a, PyObject *k) { return wirefmt_new_of(3, t, a, k); }
    static PyObject *wirefmt_new_4(PyTypeObject *t, PyObject *a, PyObject *k) { return wirefmt_new_of(4, t, a, k); }

    /* Mark a class that was changed as a base of classes of other modules. */
    static int wirefmt_guard_base(PyObject *cls) {
        static const newfunc slots[WIREFMT_BASES] = {
            wirefmt_new_0, wirefmt_new_1, wirefmt_new_2, wirefmt_new_3, wirefmt_new_4};
        if (wirefmt_base_count == WIREFMT_BASES) {
            PyErr_SetString(PyExc_SystemError, "WIREFMT_BASES is too small");
            return -1;
        }
        wirefmt_bases[wirefmt_base_count] = (PyTypeObject *)cls;
        ((PyTypeObject *)cls)->tp_new = slots[wirefmt_base_count++];
        PyType_Modified((PyTypeObject *)cls);
        return 0;
    }

    static int wirefmt_filled(PyObject *self, PyObject *args, PyObject *kwargs) {
        (void)self, (void)args, (void)kwargs;
        return 0;
    }

    /* `__init__` called by name. Classes written in Python have it as their tp_init. */
    static int wirefmt_refuse(PyObject *self, PyObject *args, PyObject *kwargs) {
        (void)args, (void)kwargs;
        if (PyType_HasFeature(Py_TYPE(self), Py_TPFLAGS_HEAPTYPE))
            return 0;
        PyErr_Format(PyExc_TypeError, "a '%.100s' object is initialised when it is made", Py_TYPE(self)->tp_name);
        return -1;
    }

    static int wirefmt_guard_constructor(PyObject *cls, PyObject *init_of_object) {
        PyTypeObject *type = (PyTypeObject *)cls;
        WirefmtClass *entry = wirefmt_class_at(type);
        PyObject *refuse;
        int done;
        if (entry->type != NULL)               /* a class with two names */
            return 0;
        if (++wirefmt_class_count > WIREFMT_CLASSES / 2) {
            PyErr_SetString(PyExc_SystemError, "WIREFMT_CLASSES is too small");
            return -1;
        }
        entry->type = type;
        entry->make = type->tp_new;
        entry->fill = type->tp_init == PyBaseObject_Type.tp_init ? NULL : type->tp_init;
        if (entry->fill == wirefmt_filled)     /* inherited from a class of another module, which was changed */
            entry->fill = wirefmt_class_at(type->tp_base)->fill;
        type->tp_new = wirefmt_new;
        type->tp_init = wirefmt_filled;
        PyType_Modified(type);
        if (entry->fill == NULL)
            type->tp_vectorcall = NULL;         /* it would allocate */
        entry->call = type->tp_vectorcall;
        if (entry->call != NULL)
            type->tp_vectorcall = wirefmt_call;
        if (PyDict_GetItemString(type->tp_dict, "__init__") == NULL)
            return 0;
        refuse = PyDescr_NewWrapper(type, ((PyWrapperDescrObject *)init_of_object)->d_base, (void *)wirefmt_refuse);
        if (refuse == NULL)
            return -1;
        done = PyDict_SetItemString(type->tp_dict, "__init__", refuse);
        Py_DECREF(refuse);
        PyType_Modified(type);
        return done;
    }

    /* Classes that Python statements derived from a class of the core have copies of its slots. */
    static void wirefmt_guard_subclass(PyObject *cls) {
        PyTypeObject *type = (PyTypeObject *)cls;
        type->tp_new = wirefmt_new;
        type->tp_init = wirefmt_filled;
        PyType_Modified(type);
    }

    /* The C function of a Cython function as a method that checks `self`. The definition is never freed. */
    static PyObject *wirefmt_method_of(PyObject *cls, PyObject *function, const char *doc, int of_class) {
        PyMethodDef *method = PyMem_Malloc(sizeof(PyMethodDef));
        if (method == NULL)
            return PyErr_NoMemory();
        *method = *((PyCFunctionObject *)function)->m_ml;
        method->ml_doc = doc;
        return of_class ? PyDescr_NewClassMethod((PyTypeObject *)cls, method) : PyDescr_NewMethod((PyTypeObject *)cls, method);
    }
    """
    PyObject* wirefmt_explain
    int wirefmt_guard_constructor(object cls, object init_of_object) except -1
    int wirefmt_guard_base(object cls) except -1
    void wirefmt_guard_subclass(object cls) noexcept
    object wirefmt_method_of(object cls, object function, const char* doc, bint of_class)
    enum: Py_TPFLAGS_HEAPTYPE


def _explained(cls, text):
    """An error of a constructor's arguments, with the class and the name that was meant; None: it is another error."""
    if not text.startswith("__init__()"):
        return None
    said = f"{cls.__module__.rpartition('.')[2]}.{cls.__name__}{text[8:]}"
    unknown = text.partition(" unexpected keyword argument '")[2].rstrip("'")
    names = getattr(cls, "__match_args__", ())
    return f"{said}; {suggest(unknown, names)}" if unknown and names else said


wirefmt_explain = <PyObject*>_explained      # the module keeps it
from wirefmt.errors import suggest
cdef object FUNCTION = type(schema_capsule)     # Cython's type of functions
cdef list METHOD_DOCS = []                      # never freed
cdef list CLASS_NAMES = []                      # so do these


class _Signature:
    """The attribute `__signature__` of a class, for the class itself and for classes derived from it."""

    def __get__(self, instance, owner):
        from wirefmt.signatures import signature_of
        found = signature_of(owner) if instance is None else None
        if found is None:
            raise AttributeError("__signature__")
        return found


cdef object SIGNATURE = _Signature()


cdef bytes method_doc(object function):
    """The signature in the form that inspect.signature and help() read from methods written in C, and the docstring."""
    cdef list words = []
    code = function.__code__
    names = code.co_varnames
    count = code.co_argcount
    defaults = dict(zip(reversed(names[:count]), reversed(function.__defaults__ or ()))) | (function.__kwdefaults__ or {})
    defaults = {
        name: f"={value!r}" if type(value) in (type(None), bool, int, str, bytes) else "=..."
        for name, value in defaults.items()
    }
    for i, name in enumerate(names[:count]):
        words.append(f"{'' if i else '$'}{name}{defaults.get(name, '')}")
        if i + 1 == code.co_posonlyargcount:
            words.append("/")
    rest = list(names[count:])
    keywords = [rest.pop(0) for _ in range(code.co_kwonlyargcount)]
    if code.co_flags & 4:
        words.append("*" + rest.pop(0))
    elif keywords:
        words.append("*")
    words += [f"{name}{defaults.get(name, '')}" for name in keywords]
    if code.co_flags & 8:
        words.append("**" + rest.pop(0))
    return f"{function.__name__}({', '.join(words)})\n--\n\n{function.__doc__ or ''}".encode()


cdef int guard_methods(object cls) except -1:
    cdef bytes doc
    for name, value in list(cls.__dict__.items()):
        function = value.__func__ if type(value) is classmethod else value
        if type(function) is FUNCTION:
            doc = method_doc(function)
            METHOD_DOCS.append(doc)
            wirefmt_set_attribute(cls, name, wirefmt_method_of(cls, function, PyBytes_AS_STRING(doc),
                                                               type(value) is classmethod))
    return 0


cdef int name_public(dict space, str package, tuple inner) except -1:
    """Set the package of a module's classes and functions to the one that exports them, except `inner` ones, which it does not
    export."""
    cdef bytes name
    for value in list(space.values()):
        if not isinstance(value, type) and type(value) is not FUNCTION:
            continue
        if value.__module__ != space["__name__"] or value in inner:
            continue
        if type(value) is FUNCTION or value.__flags__ & Py_TPFLAGS_HEAPTYPE:
            value.__module__ = package
        else:
            name = f"{package}.{value.__name__}".encode()
            CLASS_NAMES.append(name)
            (<PyTypeObject*>value).tp_name = PyBytes_AS_STRING(name)
    return 0


cdef int finish_module(dict space, str package=None, tuple inner=(), tuple bases=()) except -1:
    """Change the classes of a module's namespace, and the classes that were derived from them, so that only constructors make
    objects. package: the one that exports the names of the module, except `inner` ones; None: they keep their module. bases:
    classes from which classes of other modules are derived."""
    cdef list subclasses
    if package is not None:
        name_public(space, package, inner)
    for cls in list(space.values()):
        if not isinstance(cls, type) or cls.__flags__ & Py_TPFLAGS_HEAPTYPE or not cls.__module__.startswith("wirefmt."):
            continue
        wirefmt_guard_constructor(cls, object.__init__)
        if not cls.__base__.__module__.startswith("wirefmt."):      # derived classes inherit it
            wirefmt_set_attribute(cls, "__signature__", SIGNATURE)
        guard_methods(cls)
        subclasses = type.__subclasses__(cls)
        while subclasses:
            derived = subclasses.pop()
            if derived.__flags__ & Py_TPFLAGS_HEAPTYPE:
                wirefmt_guard_subclass(derived)
                subclasses += type.__subclasses__(derived)
    for cls in bases:
        wirefmt_guard_base(cls)
    return 0
