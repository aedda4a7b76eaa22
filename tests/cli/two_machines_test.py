"""`harmonics stage` by hand on two machines: two network namespaces with a cable between them.

The names of the namespaces are this process's own; they are removed at the end, also after a failure.
"""

import json
import os
import shutil
import subprocess
import unittest

import program

FIRST, SECOND = '10.231.77.1', '10.231.77.2'


def ip(*arguments):
    subprocess.run(['ip', *arguments], check=True, capture_output=True, text=True, timeout=20)


class TwoMachinesTest(program.CliTest):
    def setUp(self):
        super().setUp()
        if shutil.which('ip') is None:
            self.skipTest('the program ip (iproute2) is not installed')
        mark = f'{os.getpid() % 100000}'
        self.machines = [f'harmonics-{mark}-a', f'harmonics-{mark}-b']
        cable = [f'hm{mark}a', f'hm{mark}b']
        for machine in self.machines:
            self.addCleanup(subprocess.run, ['ip', 'netns', 'del', machine], capture_output=True,
                            timeout=20)
        try:
            for machine in self.machines:
                ip('netns', 'add', machine)
            ip('link', 'add', cable[0], 'netns', self.machines[0], 'type', 'veth', 'peer', 'name',
               cable[1], 'netns', self.machines[1])
            for machine, end, address in zip(self.machines, cable, (FIRST, SECOND)):
                ip('-n', machine, 'address', 'add', f'{address}/24', 'dev', end)
                ip('-n', machine, 'link', 'set', end, 'up')
                ip('-n', machine, 'link', 'set', 'lo', 'up')
        except subprocess.CalledProcessError as error:
            self.skipTest(f'network namespaces are not permitted here: {error.stderr.strip()}')

    def start_on(self, machine, *arguments):
        words = ['ip', 'netns', 'exec', self.machines[machine], str(program.HARMONICS),
                 *map(str, arguments)]
        process = subprocess.Popen(words, cwd=self.folder, text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE,
                                   env=dict(program.limited_environment(),
                                            HARMONICS_HOSTS=f'gpu-box={SECOND}'))
        self.addCleanup(self._end, process)
        return process

    def test_stages_on_two_machines_learn_what_one_process_learns(self):
        settings = ('--epochs', '3', '--micro-batches', '2', '--clip', '1')
        expected = self.train(*settings)
        stages = [self.start_on(part, 'stage', self.net, '--parts', '2', '--part', part, *settings,
                                '--meet', 'tcp://gpu-box:9000', '--run', 'two-machines', '--checkpoint',
                                self.folder / f'machine{part}' / 'run', '--output', 'json')
                  for part in (0, 1) if not (self.folder / f'machine{part}').mkdir()]
        for stage in stages:
            output, error = stage.communicate(timeout=program.TIMEOUT_S)
            self.assertEqual(stage.returncode, 0, error)
            report = json.loads(output)
            for key in ('steps', 'train_loss', 'test_loss', 'test_accuracy'):
                self.assertEqual(report[key], expected[key], key)
        # The files of both machines, gathered in one folder, are the whole run.
        gathered = self.folder / 'machine0'
        for file in (self.folder / 'machine1').glob('run.step-*'):
            shutil.copy(file, gathered)
        whole = self.train(*settings, '--checkpoint', gathered / 'run', '--resume')
        self.assertTrue(whole['was_complete'])
        self.assertEqual(whole['weights_digest'], expected['weights_digest'])


if __name__ == '__main__':
    unittest.main()
