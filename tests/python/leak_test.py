"""A thousand steps and inferences, with arrays that are made anew, leave no memory behind."""

import gc
import resource
import unittest

import numpy

import harmonics as hm

STEPS = 1000
# Less than a thousandth of what goes through: one array kept for each step would be 25 MB.
ALLOWED_KIB = 2048


def resident_kib():
    with open('/proc/self/statm', encoding='ascii') as file:
        return int(file.read().split()[1]) * resource.getpagesize() // 1024


class LeakTest(unittest.TestCase):
    def test_memory_stays_flat(self):
        graph = (hm.GraphBuilder('small').producer('x', [100]).producer('y', [1], 'int64')
                 .layer('a', 'linear', 'x', 'relu', out=32).layer('b', 'linear', 'a', out=4)
                 .consumer('out', 'b').tap('cross_entropy', 'b', 'y').build())
        runtime = hm.Runtime(graph, batch_size=64, threads=1)
        reports = []

        def work(count):
            for number in range(count):
                data = {'x': numpy.full((64, 100), number, numpy.float32), 'y': numpy.zeros(64, numpy.int64)}
                runtime.fit(data, epochs=1, on_step=lambda report: reports.append(report.loss))
                runtime.infer({'x': data['x']})
                runtime.parameters()
                reports.clear()
            gc.collect()
        work(STEPS // 4)
        before = resident_kib()
        work(STEPS)
        self.assertLess(resident_kib() - before, ALLOWED_KIB)

    def test_runtimes_and_graphs_go_away(self):
        def make():
            data = {'image': numpy.ones((32, 64), numpy.float32), 'label': numpy.zeros(32, numpy.int64)}
            runtime = hm.Runtime(hm.Graph.zoo('digits-mlp'), parts=2, threads=1)
            runtime.fit(data, epochs=1)
        for _ in range(20):
            make()
        gc.collect()
        before = resident_kib()
        for _ in range(60):
            make()
        gc.collect()
        self.assertLess(resident_kib() - before, 2 * ALLOWED_KIB)


if __name__ == '__main__':
    unittest.main()
