# One call at a time: mutable objects refuse a call while another call runs.
#
# Other code may run before a method returns, because the method releases the GIL or makes Python objects (the garbage
# collector may then run finalizers, and these may switch threads). If that code calls the same object, it would change state
# that the method relies on. It gets a RuntimeError instead, and the method continues.
#
#     begin_call(&self.busy)
#     try:
#         ...
#     finally:
#         self.busy = False
#
# Code that runs a caller's code on purpose (taking a buffer, reading options) comes before begin_call.
