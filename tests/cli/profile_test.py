"""harmonics profile: measuring, merging, bandwidth, and what it refuses."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import unittest

import program
import progress_test

QUICK = ('--warmup', '0', '--repeats', '1', '--threads', '1')
VIT_BLOCK = [302592, 302592, 756480, 151296]


def flow_list(text, key):
    """The numbers of `key: [...]` in a YAML text."""
    found = re.search(rf'{key}: \[([^\]]*)\]', text)
    return [float(number) for number in found.group(1).split(',')]


class ProfileTest(program.CliTest):
    def profile(self, *arguments):
        return json.loads(self.done('profile', *arguments, *QUICK, '--output', 'json'))

    def read(self, name):
        return (self.folder / name).read_text()

    def test_vit_base_has_the_published_sizes(self):
        report = self.profile('vit-base', '--batch-size', '1', '--bw-mbps', '1000', '--type', 'here')
        self.assertEqual(report['model'], 'google/vit-base-patch16-224')
        self.assertEqual(len(report['profiles'][0]['layers']), 48)
        models = self.read('models.yml')
        self.assertTrue(models.startswith('google/vit-base-patch16-224:\n  layers: 48\n'))
        self.assertIn('\n  parameters_in: 150528\n', models)
        self.assertEqual(flow_list(models, 'parameters_out'), (VIT_BLOCK * 12)[:-1] + [1000])
        self.assertEqual(len(flow_list(models, 'mem_MB')), 48)
        types = self.read('device_types.yml')
        self.assertIn('here:\n  bw_Mbps: 1000\n', types)
        self.assertEqual(len(flow_list(types, 'time_s')), 48)
        results = self.read('profiler_results.yml')
        self.assertIn('shape_in: [[3, 224, 224]]', results)
        self.assertEqual(results.count('\n- layer: '), 48)

    def test_several_sizes_and_dtypes_merge_over_calls(self):
        report = self.profile(self.net, '--batch-size', '1,4', '--dtype',
                              'torch.float32,torch.bfloat16', '--type', 'one', '--bw-mbps', '10',
                              '--mem-mb', '100')
        self.assertEqual([(p['dtype'], p['batch_size']) for p in report['profiles']],
                         [('torch.float32', 1), ('torch.float32', 4),
                          ('torch.bfloat16', 1), ('torch.bfloat16', 4)])
        self.profile('lenet-digits', '--type', 'one')
        # Not given again: what is on file stays.
        again = self.profile(self.net, '--batch-size', '4', '--type', 'one', '--mem-mb', '100')
        self.assertEqual(again['bw_Mbps'], 10)
        self.assertEqual(again['bandwidth_source'], 'as on file')
        self.profile(self.net, '--batch-size', '4', '--type', 'two', '--bw-mbps', '20')
        types = self.read('device_types.yml')
        self.assertEqual(types.count('time_s'), 4 + 1 + 1)
        self.assertRegex(types, r'(?m)^one:\n  bw_Mbps: 10\n')
        self.assertRegex(types, r'(?m)^two:\n  bw_Mbps: 20\n')
        models = self.read('models.yml')
        self.assertEqual(re.findall(r'(?m)^\S+(?=:$)', models), ['lenet-digits', 'quadrant'])

    def test_training_needs_more_and_has_a_name_of_its_own(self):
        self.profile(self.net, '--type', 'here', '--bw-mbps', '10')
        report = self.profile(self.net, '--type', 'here', '--mode', 'training', '--in-flight', '3',
                              '--optimizer', 'sgd')
        self.assertEqual(report['model'], 'quadrant-training')
        memory = report['profiles'][0]['layers'][0]['memory_bytes']
        self.assertEqual(memory['gradients'], memory['weights'])
        self.assertEqual(memory['optimizer'], memory['gradients'])
        models = self.read('models.yml')
        inference = flow_list(models[models.index('quadrant:'):], 'mem_MB')
        training = flow_list(models[models.index('quadrant-training:'):], 'mem_MB')
        for less, more in zip(inference, training):
            self.assertLess(less, more)
        # What a plan needs for an order of the micro-batches: memory by what it is for, passes apart.
        fixed, kept, scratch = (flow_list(models, key) for key in ('fixed_MB', 'kept_MB', 'scratch_MB'))
        self.assertEqual([len(fixed), len(kept), len(scratch)], [5, 5, 5])
        for all_of_it, without, more in zip(training, fixed, kept):
            self.assertLess(without, all_of_it)
            self.assertGreater(more, 0)
        times = self.read('device_types.yml')
        both = times[times.index('quadrant-training:'):]
        for forward, passes in zip(flow_list(both, 'forward_s'), flow_list(both, 'time_s')):
            self.assertTrue(0 < forward < passes)

    def test_who_else_computes_is_named(self):
        spinning = []
        for _ in range(len(os.sched_getaffinity(0)) + 1):
            # Ends by itself, whatever becomes of the test.
            spinning.append(subprocess.Popen([sys.executable, '-c', 'import signal; signal.alarm(300)\nwhile True: pass']))
        try:
            result = self.call('profile', self.net, '--batch-size', '512', '--repeats', '50',
                               '--threads', '1', '--output', 'json')
        finally:
            for process in spinning:
                process.kill()
                process.wait()
        self.assertEqual(result.returncode, 0, result.stderr)
        busy = {one['process'] for one in json.loads(result.stdout)['busy_processes']}
        self.assertTrue(busy & {process.pid for process in spinning}, result.stdout)
        self.assertIn('is busy: passes waited for a core', result.stderr)
        self.assertRegex(result.stderr, r'others kept [\d.]+ busy: .*\(process \d+\)')

    def test_defaults_come_from_the_machine(self):
        report = self.profile(self.net)
        self.assertGreater(report['mem_MB'], 0)
        self.assertGreater(report['bw_Mbps'], 0)
        self.assertRegex(report['device_type'], r'^[\w.-]+$')

    def test_files_and_names_can_be_chosen(self):
        report = self.profile(self.net, '--backend', 'cpu', '--device', '0', '--model-name', 'acme/quadrant',
                              '--models-file', 'm.yml', '--dev-types-file', 'd.yml', '--results-file',
                              'r.yml', '--bw-mbps', '10', '--type', 'one')
        self.assertEqual(report['model'], 'acme/quadrant')
        self.assertEqual(self.names(), ['d.yml', 'm.yml', 'net.harp', 'points.csv', 'r.yml'])
        self.assertTrue(self.read('m.yml').startswith('acme/quadrant:\n'))

    def test_outputs(self):
        table = self.done('profile', self.net, *QUICK, '--bw-mbps', '10', '--type', 'here')
        for text in ('torch.float32, batch size 8, inference', 'wide', '5 layers',
                     'quadrant on device type here:', '10 Mbps (given)', '-> device_types.yml'):
            self.assertIn(text, table)
        seconds = self.done('profile', self.net, *QUICK, '--output', 'quiet', '--batch-size', '1,2')
        self.assertEqual(len([float(line) for line in seconds.split()]), 2)

    def on_terminal(self, *words):
        """What the terminal shows, without what other tests may cause: that the machine is busy."""
        shown, output = progress_test.ProgressTest.on_terminal(self, *words)
        return re.sub(r'warning: this machine [^\r\n]*\r?\n', '', shown), output

    def test_bar_on_a_terminal(self):
        shown, output = self.on_terminal('profile', self.net, '--batch-size', '1,2', '--bw-mbps', '1')
        bars = re.sub(r'\x1b\[[0-9;]*[mK]', '', shown).split('\r')
        self.assertRegex(bars[1], r'^quadrant x1 \[\.+\]  0/5  wide$')
        self.assertRegex(bars[5], r'^quadrant x1 \[#+\.+\]  4/5  \d+:\d\d left  output$')
        self.assertRegex(bars[12], r'^quadrant x2 \[#+\]  5/5')
        self.assertEqual(bars[13:], [''])  # wiped
        self.assertNotIn('\x1b', output)
        shown, _ = self.on_terminal('profile', self.net, '--output', 'quiet', '--type', 'x', '--bw-mbps', '1')
        self.assertEqual(shown, '')

    def serve(self):
        server = self.start('profile', '--serve', '127.0.0.1:0')
        port = re.search(r'on port (\d+)', server.stdout.readline()).group(1)
        return server, port

    def test_bandwidth_is_measured_with_a_peer(self):
        server, port = self.serve()
        report = self.profile(self.net, '--peer', f'127.0.0.1:{port}')
        self.assertGreaterEqual(report['bw_Mbps'], 1)
        self.assertEqual(report['bandwidth_source'], f'measured to 127.0.0.1:{port}')
        # It goes on serving.
        self.profile(self.net, '--peer', f'127.0.0.1:{port}')
        server.send_signal(signal.SIGINT)
        self.assertEqual(server.wait(timeout=program.TIMEOUT_S), -signal.SIGINT)
        result = self.call('profile', self.net, '--peer', f'127.0.0.1:{port}')
        self.assert_fails(result, 'nobody answers at', 'harmonics profile --serve')

    def test_serving_needs_no_torch_program(self):
        front = self.folder / 'bin' / 'harmonics'
        front.parent.mkdir()
        shutil.copy(program.HARMONICS, front)
        server = subprocess.Popen([front, 'profile', '--serve', '127.0.0.1:0'], text=True,
                                  stdout=subprocess.PIPE)
        self.addCleanup(self._end, server)
        self.assertIn('serving bandwidth measurements', server.stdout.readline())

    def test_failures_write_nothing(self):
        before = self.names()
        cases = {
            ('nothing.harp',): "cannot read 'nothing.harp': No such file",
            ('resnet-18',): "; did you mean 'resnet18'?",
            (self.net, '--dtype', 'torch.float16'): 'fp16 needs a GPU',
            (self.write('open.harp', self.open_graph()),): "the shape of producer 'point'",
            (self.write('dull.harp', self.dull_graph()), '--mode', 'training'): 'no training tap',
            (self.net, '--results-file', 'missing/results.yml'): 'missing/results.yml',
            (self.net, '--backend', 'gpu', '--device', '99'): 'no GPU 99 here',
        }
        for arguments, text in cases.items():
            with self.subTest(arguments):
                self.assert_fails(self.call('profile', *arguments, '--repeats', '1'), text)
        self.assertEqual(self.names(), sorted(before + ['dull.harp', 'open.harp']))

    @staticmethod
    def open_graph():
        return program.GRAPH.replace('producer point {4}', 'producer point').replace(
            ' int64 1/1 point', ' int64')

    @staticmethod
    def dull_graph():
        return '\n'.join(line for line in program.GRAPH.split('\n') if '<-(' not in line)

    def test_a_broken_file_stays_as_it_is(self):
        self.write('device_types.yml', 'here: [1, 2\n')
        self.assert_fails(self.call('profile', self.net, '--repeats', '1'), 'device_types.yml')
        self.assertEqual(self.read('device_types.yml'), 'here: [1, 2\n')
        self.assertNotIn('models.yml', self.names())

    def test_wrong_usage(self):
        cases = {
            'profile': 'GRAPH is required',
            'profile lenet --serve 80': 'excludes',
            'profile --serve host': "'host' is not of the form HOST:PORT or PORT",
            'profile lenet --peer 80': "'80' is not of the form HOST:PORT",
            'profile lenet --peer a:80 --bw-mbps 5': 'excludes',
            'profile lenet --batch-size 0': "'0' is not a whole number from 1 to 1048576",
            'profile lenet --batch-size 1,1': "'1' is there twice",
            'profile lenet --batch-size 1,': "'1,' ends with a comma",
            'profile lenet --batch-size 1,,2': "'' is not a whole number",
            'profile lenet --dtype torch.int8': "'torch.int8' is none of",
            'profile lenet --repeats 10001': 'from 1 to 10000',
            'profile lenet --in-flight 4097': 'from 1 to 4096',
            'profile lenet --mem-mb 0': "'0' is not a number above 0",
            'profile lenet --bw-mbps nan': "'nan' is not a number above 0",
            'profile lenet --mode both': "'both' is none of inference|training",
            'profile lenet --batch-size ' + ','.join(map(str, range(1, 66))): 'at most 64',
        }
        for line, text in cases.items():
            with self.subTest(line):
                self.assert_fails(self.call(*line.split()), text, "\ntry 'harmonics", code=2)


if __name__ == '__main__':
    unittest.main()
