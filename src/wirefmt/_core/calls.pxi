# One call at a time: objects whose state changes refuse a call while another one works on them.
#
# A method may let other code run before it returns: it releases the GIL, or makes Python objects, and then the garbage
# collector may run finalizers, which may let other threads run. Code that calls the same object then would change what
# the method stands on. It gets RuntimeError instead, and the method goes on undisturbed.
#
#     begin_call(&self.busy)
#     try:
#         ...
#     finally:
#         self.busy = False
#
# What runs a caller's code on purpose (taking a buffer, options) does so before begin_call.
