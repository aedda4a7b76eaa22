"""What leak_asan_test runs under the leak checker: leak_work.py STEPS [--planted].

Fits, inferences and dispatches with arrays that are made anew; --planted lets a list and some bytes go astray in each
step. Prints how many objects Python's collector knows at the end: those it can still reach, and no leak checker sees.
"""

import ctypes
import gc
import sys

import numpy

import harmonics as hm

NET = ('harmonic net { producer x {100}; producer y {1} int64; consumer out; layer a linear(out=32); '
       'layer b linear(out=4); cycle { x -(relu)-> a -> b; b -> out; b <-(cross_entropy)- y; } }')


def work(steps, planted):
    runtime = hm.Runtime(hm.Graph.parse(NET), batch_size=64, threads=1)
    dispatcher = hm.Dispatcher(['emulated:1e7,1us#a', 'emulated:1e7,1us#b'])
    for number in range(steps):
        data = {'x': numpy.full((64, 100), number, numpy.float32), 'y': numpy.zeros(64, numpy.int64)}
        report = runtime.fit(data, epochs=1, on_step=lambda step: step.loss)
        runtime.infer({'x': data['x']})
        runtime.parameters()
        if number % 10 == 0:
            dispatcher.run(lambda piece, device: piece * 2, data['x'])
        if planted:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object([report.steps]))
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(bytes(100)))
    gc.collect()


if __name__ == '__main__':
    work(int(sys.argv[1]), '--planted' in sys.argv)
    print('done', len(gc.get_objects()))
