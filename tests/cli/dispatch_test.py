"""harmonics dispatch-sweep and dispatch-trace, with real processes."""

import json
import unittest
import xml.etree.ElementTree

import program

TRACE = {'traceEvents': [
    {'ph': 'M', 'name': 'thread_name', 'pid': 0, 'tid': 0,
     'args': {'name': 'cuda:0 / 0', 'device': 'cuda:0', 'lane': 0, 'dropped': 0}},
    {'ph': 'X', 'name': 'sub-batch', 'cat': 'sub-batch', 'pid': 0, 'tid': 0, 'ts': 0.0, 'dur': 400.0,
     'args': {'row': 0, 'rows': 100}},
    {'ph': 'X', 'name': 'prepare', 'cat': 'phase', 'pid': 0, 'tid': 0, 'ts': 0.0, 'dur': 100.0},
    {'ph': 'X', 'name': 'compute', 'cat': 'phase', 'pid': 0, 'tid': 0, 'ts': 100.0, 'dur': 250.0},
    {'ph': 'X', 'name': 'failed', 'cat': 'sub-batch', 'pid': 0, 'tid': 0, 'ts': 500.0, 'dur': 500.0,
     'args': {'row': 100, 'rows': 7}},
]}


class DispatchTest(program.CliTest):
    def test_sweep_of_a_graph_names_the_best_size(self):
        report = json.loads(self.done('dispatch-sweep', 'digits-mlp', '--sizes', '1,64', '--streams', '2',
                                      '--milliseconds', '20', '--output', 'json'))
        self.assertEqual([point['sub_batch'] for point in report['sizes']], [1, 64])
        for point in report['sizes']:
            self.assertGreater(point['rows_per_second'], 0)
        self.assertIn(report['best'], (1, 64))
        self.assertLessEqual(report['smallest_within_3_percent'], report['best'])
        table = self.done('dispatch-sweep', 'digits-mlp', '--sizes', '8', '--milliseconds', '5')
        self.assertRegex(table, r'(?m)^ +8 .* best$')

    def test_sweep_of_an_emulated_device(self):
        # 10 us per row and 5 ms per sub-batch: the larger one must win by far.
        report = json.loads(self.done('dispatch-sweep', 'digits-mlp', '--device', 'emulated:1e5,5ms',
                                      '--sizes', '1,256', '--milliseconds', '30', '--output', 'json'))
        self.assertEqual(report['best'], 256)
        self.assertEqual(report['smallest_within_3_percent'], 256)

    def test_wrong_sweeps(self):
        for line, text in {
                'dispatch-sweep lenet --device tpu': "device 'tpu': there is no such device",
                'dispatch-sweep lenet --sizes 0': "'0' is not a whole number from 1",
                'dispatch-sweep lenet --input x': "'x' is not of the form NAME=3x224x224",
                'dispatch-sweep': 'MODEL is required',
                'dispatch-trace': 'FILE is required'}.items():
            with self.subTest(line):
                self.assert_fails(self.call(*line.split()), text, code=2)
        self.assert_fails(self.call('dispatch-sweep', 'unicorn'), 'unicorn')
        self.assert_fails(self.call('dispatch-sweep', 'm.pt'), '--input NAME=3x224x224')
        self.assert_fails(self.call('dispatch-sweep', 'm.pt', '--input', 'x=3'), "no file 'm.pt'")

    def test_trace_as_table_json_and_picture(self):
        file = self.write('trace.json', json.dumps(TRACE))
        self.assertRegex(self.done('dispatch-trace', file), r'cuda:0 / 0 +2 +1 +100 +90.00 %')
        report = json.loads(self.done('dispatch-trace', file, '--output', 'json'))
        self.assertEqual(report['workers'][0]['rows'], 100)
        self.assertAlmostEqual(report['seconds'], 1e-3)
        self.done('dispatch-trace', file, '--svg', '--out', 'trace.svg')
        picture = xml.etree.ElementTree.parse(self.folder / 'trace.svg').getroot()
        self.assertTrue(picture.tag.endswith('svg'))
        self.assertIn('failed', self.done('dispatch-trace', file, '--svg'))

    def test_a_slow_rate_is_not_nothing(self):
        slow = json.loads(json.dumps(TRACE))
        slow['traceEvents'] = slow['traceEvents'][:2]
        slow['traceEvents'][1]['dur'] = 300e6  # microseconds for 100 rows
        table = self.done('dispatch-trace', self.write('slow.json', json.dumps(slow)))
        self.assertRegex(table, r'(?m) 0\.333$')

    def test_other_files_are_refused(self):
        for text in ('', '[]', '{"traceEvents": 5}', 'hello'):
            self.assert_fails(self.call('dispatch-trace', self.write('bad.json', text)), 'bad.json')
        self.assert_fails(self.call('dispatch-trace', 'none.json'), 'none.json')


if __name__ == '__main__':
    unittest.main()
