"""harmonics devices, and training on the devices of a deployment."""

import json
import os
import unittest

import program


class DevicesTest(program.CliTest):
    def devices(self, **environment):
        result = self.call('devices', '--output', 'json', environment=environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)['devices']

    def call(self, *arguments, environment=None):
        before = dict(os.environ)
        os.environ.update(environment or {})
        try:
            return super().call(*arguments)
        finally:
            os.environ.clear()
            os.environ.update(before)

    def test_the_cpu_is_always_there(self):
        devices = self.devices()
        self.assertEqual((devices[0]['kind'], devices[0]['backend']), ('cpu', 'cpu'))
        self.assertGreater(devices[0]['memory_bytes'], 0)
        self.assertEqual(sum(device['auto'] for device in devices), 1)
        table = self.done('devices')
        for word in ('device', 'memory MB', 'driver', 'backend', 'cpu:0'):
            self.assertIn(word, table)
        self.assertEqual(self.done('devices', '--output', 'quiet').split(),
                         [f"{device['kind']}:{device['index']}" for device in devices])

    def test_hidden_platforms_leave_the_rest(self):
        hidden = self.devices(OCL_ICD_VENDORS='/nonexistent')
        self.assertEqual([device for device in hidden if device['kind'] == 'opencl'], [])
        shown = [device for device in self.devices() if device['kind'] == 'opencl']
        if not shown:
            self.skipTest('no OpenCL platform answers')
        self.assertEqual(sum(device['default'] for device in shown), 1)
        none = self.devices(HARMONICS_OPENCL_DEVICE='no such card')
        self.assertFalse(any(device['default'] for device in none if device['kind'] == 'opencl'))

    def test_a_deployment_trains_like_its_parts(self):
        whole = self.train('--epochs', '2')
        file = self.write('deploy.yml', 'partitions:\n  - {backend: cpu, weight: 3}\n  - backend: cpu\n')
        for deploy in ('cpu,cpu,cpu', str(file)):
            with self.subTest(deploy):
                report = self.train('--epochs', '2', '--deploy', deploy)
                self.assertEqual(report['weights_digest'], whole['weights_digest'])
        self.assertEqual(self.train('--epochs', '1', '--deploy', 'cpu,cpu,cpu')['parts'], 3)

    def test_what_is_not_there_is_the_cpu_with_one_warning(self):
        whole = self.train('--epochs', '1')
        result = self.call('train', self.net, '--epochs', '1', '--deploy', 'fpga,cpu', '--output', 'json',
                           environment={'OCL_ICD_VENDORS': '/nonexistent'})
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(json.loads(result.stdout)['weights_digest'], whole['weights_digest'])
        warnings = [line for line in result.stderr.splitlines() if 'using the CPU instead' in line]
        self.assertEqual(len(warnings), 1, result.stderr)
        self.write('strict.yml', 'strict: true\npartitions:\n  - {backend: fpga}\n  - {backend: cpu}\n')
        result = self.call('train', self.net, '--deploy', 'strict.yml',
                           environment={'OCL_ICD_VENDORS': '/nonexistent'})
        self.assertEqual(result.returncode, 1)
        self.assertIn('OpenCL', result.stderr)

    def test_an_opencl_device_trains_like_the_cpu(self):
        if not any(device['kind'] == 'opencl' for device in self.devices()):
            self.skipTest('no OpenCL platform answers')
        whole = self.train('--epochs', '3')
        self.write('deploy.yml', 'strict: true\npartitions:\n  - {backend: fpga}\n  - {backend: cpu}\n')
        mixed = self.train('--epochs', '3', '--deploy', 'deploy.yml')
        self.assertEqual(mixed['parts'], 2)
        self.assertAlmostEqual(mixed['train_loss'] / whole['train_loss'], 1, delta=1e-4)

    def test_kernels_of_opencl_are_built_once(self):
        if not any(device['kind'] == 'opencl' for device in self.devices()):
            self.skipTest('no OpenCL platform answers')
        self.write('deploy.yml', 'strict: true\npartitions:\n  - {backend: fpga}\n')
        cache = self.folder / 'cache'
        # PoCL keeps what it compiles too, where it always does: that takes long, and is not looked at here.
        usual = os.environ.get('XDG_CACHE_HOME') or os.path.expanduser('~/.cache')
        places = {'XDG_CACHE_HOME': str(cache), 'POCL_CACHE_DIR': f'{usual}/pocl/kcache'}

        def train():
            result = self.call('train', self.net, '--deploy', 'deploy.yml', '--epochs', '1', '--output', 'quiet',
                               environment=places)
            self.assertEqual(result.returncode, 0, result.stderr)
            return result.stdout, {file: file.stat().st_mtime_ns
                                   for file in (cache / 'harmonics' / 'opencl').glob('*.bin')}
        digest, kept = train()
        self.assertEqual(len(kept), 1)
        self.assertEqual(train(), (digest, kept), 'what was kept is used')

    def test_memory_limits_and_wrong_wishes(self):
        self.write('small.yml', 'partitions:\n  - {backend: cpu, mem_MB: 0.0001}\n  - {backend: cpu}\n')
        cases = {('--deploy', 'small.yml'): 'cannot be cut within the memory',
                 ('--deploy', 'tpu'): "unknown backend 'tpu'",
                 ('--deploy', 'cpu,cpu', '--parts', '2'): 'leave out --parts',
                 ('--deploy', 'missing.yml'): 'missing.yml'}
        for arguments, text in cases.items():
            with self.subTest(arguments):
                self.assert_fails(self.call('train', self.net, *arguments), text)


if __name__ == '__main__':
    unittest.main()
