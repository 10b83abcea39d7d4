# SPDX-License-Identifier: Apache-2.0
"""Python joins a cluster: NumPy arrays lie in its object store without a copy, a task runs in
Python, an actor in C.
Usage: arrays.py COUNTER.so (counter.c as a shared object)"""
import sys
import time

import numpy as np
from crt_ffi import C, argument, check, ffi, hold, out, pointers, struct, text

ffi.cdef("extern crt_method_t counter_add; extern crt_actor_class_t counter_class;")
counter = ffi.dlopen(sys.argv[1])


def array_of(data, dtype, shape):
    return np.frombuffer(ffi.buffer(data,
                                    int(np.prod(shape)) * dtype.itemsize), dtype).reshape(shape)


def new_array(shape):
    """An array in the store that may be written to, and the object that it becomes."""
    made, view = ffi.new("crt_object_t **"), ffi.new("crt_tensor_t *")
    check(C.crt_object_create(C.CRT_DTYPE_FLOAT64, len(shape), shape, made, view))
    return array_of(view.data, np.dtype("f8"), shape), made


def get(ref):
    """The array in the store, read only; it holds its ref."""
    given = ffi.new("crt_dlpack_t **")
    check(C.crt_ref_to_dlpack(ref, -1, given))
    held = ffi.gc(given[0], given[0].deleter)
    array = array_of(ffi.gc(held.view.data, lambda _, held=held: None), np.dtype("f8"),
                     tuple(held.view.shape[0:held.view.rank]))
    array.flags.writeable = False
    return array


@ffi.callback("crt_status_t(crt_call_t *)")
def mean_run(call):
    tensor = ffi.new("const crt_tensor_t **")
    status = C.crt_arg_at_v(call, 0, out("TENSOR", tensor))
    if status < 0:
        return status
    t = tensor[0]
    mean = array_of(t.data, np.dtype("f8"), tuple(t.shape[0:t.rank])).mean()
    return C.crt_return_v(call, ffi.new("crt_arg_t *", argument("FLOAT", "number", mean)))


mean = struct("crt_task_t", name=text("mean"), run=mean_run, signature=text("tensor"))
line = [text(word) for word in sys.orig_argv]  # what starts a worker
check(C.crt_init(len(line), ffi.new("char *[]", line), struct(
    "crt_options_t", tasks=pointers("const crt_task_t", mean),
    classes=pointers("const crt_actor_class_t", ffi.addressof(counter, "counter_class")))))

array, made = new_array((12_500_000,))  # 100 MB
array[:] = np.arange(array.size)
ref = hold(C.crt_object_seal(made))
begun = time.perf_counter()
got = get(ref)
took = (time.perf_counter() - begun) * 1e6
with open("/proc/self/maps", encoding="ascii") as maps:
    at = got.ctypes.data
    where = [
        row.split() for row in maps
        if int(row.split("-")[0], 16) <= at < int(row.split("-")[1].split()[0], 16)
    ]
print(f"100 MB, last element {got[-1]:.0f}, read only: {not got.flags.writeable}, "
      f"in shared memory: {where[0][1][3] == 's'}")
small = hold(
    C.crt_submit_v(mean, ffi.NULL, ffi.new("crt_arg_t[1]", [argument("REF", "ref", ref)]), 1))
number = ffi.new("double *")
check(C.crt_get_v(small, -1, out("DOUBLE", number)))
print(f"mean by a task in Python: {number[0]}")

actor = ffi.new("crt_actor_t **",
                C.crt_actor_new_v(ffi.addressof(counter, "counter_class"), ffi.NULL, ffi.NULL, 0))
add, one, total = ffi.addressof(counter, "counter_add"), ffi.new(
    "crt_arg_t[1]", [argument("INT", "integer", 1)]), ffi.new("int64_t *")
to, result = out("INT64", total), ffi.new("crt_ref_t **")
times = []
for _ in range(20_000):
    begun = time.perf_counter()
    result[0] = C.crt_call_v(actor[0], add, ffi.NULL, one, 1)
    check(C.crt_get_v(result[0], -1, to))
    C.crt_ref_drop(result)
    times.append(time.perf_counter() - begun)
print(f"calls of an actor in C: {total[0]}")
print(f"get of 100 MB: {took:.0f} us; call of an actor: {np.median(times) * 1e6:.1f} us",
      file=sys.stderr)
del got, array
C.crt_actor_drop(actor)
check(C.crt_shutdown())
