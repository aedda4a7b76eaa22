"""What tasks ask for: shares of devices, counted resources, models, labels, variants, whole graphs of tasks."""

import json
import os
import unittest
import unittest.mock

from cluster import ClusterTest


class Needs(ClusterTest):
    def setUp(self):
        super().setUp()
        self.start_server()

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text if isinstance(text, str) else json.dumps(text))
        return path

    def test_tasks_share_a_device_until_it_is_given_out(self):
        self.start_worker('--id', 'w', gpus=1)
        tell = 'echo $CUDA_VISIBLE_DEVICES $HARMONICS_GPU_SHARE $CUDA_MPS_PINNED_DEVICE_MEM_LIMIT; '
        first = [self.script(tell + self.held(), gpus=0.25) for _ in range(3)]
        for task in first:
            self.until_launched(task)
        device = self.json('workers')[0]['devices'][0]
        self.assertEqual((device['free'], device['share_free']), (False, 0.25))
        late = self.script('true', gpus=0.5)
        why = self.json('why', late)
        self.assertEqual(why['reason'], 'busy')
        self.assertIn('0.5 of a device with 4096 MB', why['text'])
        self.assertEqual(self.task(late)['spec']['required_gpus'], 0.5)
        self.assert_fails(self.call('submit', '--gpus', '1.5', '--', 'true'), 'a share such as 0.25', code=2)
        self.assert_fails(self.call('submit', '--config', self.write('t.json', {'name': 'x', 'required_gpus': 0.00001})),
                          'required_gpus')
        self.release()
        self.assertEqual(self.wait(*first, late)['succeeded'], 4)
        self.assertEqual(self.done('logs', first[0]), '0 0.25 0=4096M\n')
        self.assertTrue(self.json('workers')[0]['devices'][0]['free'])

    def test_shares_outlive_a_server(self):
        worker = self.start_worker('--id', 'w', gpus=1)
        task = self.script(self.held(), gpus=0.75)
        self.until_launched(task)
        server = next(process for process in self.output if 'listening' in self.printed(process))
        self.kill(server)
        self.start_server()
        self.until(self.ready_workers, 'the worker')
        other = self.script('true', gpus=0.5)
        small = self.script('true', gpus=0.25)
        self.assertEqual(self.wait(small)['succeeded'], 1)
        self.assertEqual(self.state_of(other), 'pending')
        self.release()
        self.assertEqual(self.wait(task, other)['succeeded'], 2)
        self.ended(worker)

    def test_counted_resources_labels_models_and_tasks_apart(self):
        self.start_worker('--id', 'a', '--resource', 'fpga=2,tokens=8', '--label', 'zone=a', gpus=1)
        self.start_worker('--id', 'b', '--label', 'zone=b', gpus=0)
        two = self.script('echo $HARMONICS_RESOURCE_FPGA; ' + self.held(), flags=['--resource', 'fpga=2'])
        self.until_launched(two)
        more = self.script('true', flags=['--resource', 'fpga=1'])
        self.assertIn('1 fpga', self.json('why', more)['text'])
        self.assertEqual(self.json('workers')[0]['resources']['fpga'], {'count': 2, 'free': 0})
        far = self.script('echo $HARMONICS_WORKER', flags=['--label', 'zone=b'])
        self.assertEqual(self.wait(far)['succeeded'], 1)
        self.assertEqual(self.done('logs', far), 'b\n')
        model = self.script('true', gpus=1, flags=['--gpu-model', 't4'])
        self.assertEqual(self.wait(model)['succeeded'], 1)
        apart = [self.script(self.held(), flags=['--apart', 'db']) for _ in range(3)]
        self.until(lambda: sum(self.state_of(task) == 'active' for task in apart) == 2, 'two of them')
        self.assertIn("the group 'db'", self.json('why', apart[2])['text'])
        places = {self.task(task)['members'][0]['worker'] for task in apart[:2]}
        self.assertEqual(places, {'a', 'b'})
        self.release()
        self.assertEqual(self.wait(two, more, *apart)['succeeded'], 5)
        self.assertEqual(self.done('logs', two), '2\n')

    def test_what_nobody_could_run_is_refused_with_what_is_missing(self):
        self.assertEqual(self.call('submit', '--resource', 'fpga=1', '--gpus', 0, '--', 'true').returncode, 0)
        self.start_worker(gpus=1)
        for gpus, flags, text in ((0, ['--resource', 'fpga=3'], '3 fpga (the most is 0)'),
                                  (0, ['--label', 'zone=c'], 'the label zone=c'),
                                  (1, ['--gpu-model', 'H100'], 'a GPU of the model H100')):
            self.assert_fails(self.call('submit', '--gpus', gpus, *flags, '--', 'true'), text, '--wait-for-machines')
        waits = self.call('submit', '--gpus', '0', '--label', 'zone=c', '--wait-for-machines', '--', 'true')
        self.assertEqual(waits.returncode, 0, waits.stderr)
        self.start_worker('--label', 'zone=c', gpus=0)
        self.assertEqual(self.wait(2)['succeeded'], 1)

    def test_variants(self):
        self.start_worker('--cpus', 4, gpus=1)
        flags = ['--cpus', 1, '--variant', 'gpus=0,cpus=3,weight=0.5']
        tasks = [self.script('echo "[$CUDA_VISIBLE_DEVICES]"; ' + self.held(), gpus=1, flags=flags) for _ in range(3)]
        self.until_launched(tasks[0])
        self.until_launched(tasks[1])
        self.assertIn('or 3 cores', self.json('why', tasks[2])['text'])
        self.release()
        self.assertEqual(self.wait(*tasks)['succeeded'], 3)
        self.assertEqual([self.done('logs', task) for task in tasks[:2]], ['[0]\n', '[]\n'])
        small = self.script('echo $HARMONICS_GPU_SHARE', gpus=1, flags=['--memory', 1, '--variant', 'gpus=0.5,weight=2'])
        self.assertEqual(self.wait(small)['succeeded'], 1)
        self.assertEqual(self.task(small)['spec']['variants'][0]['min_gpu_memory'], 1)
        self.assert_fails(self.call('submit', '--variant', 'gpu=1', '--', 'true'), 'resource.NAME')

    def test_a_graph_of_tasks_is_submitted_whole_or_not_at_all(self):
        self.start_worker('--cpus', 4, gpus=0)
        trail = self.folder / 'trail'
        dag = {'defaults': {'required_gpus': 0},
               'tasks': [{'name': 'join', 'command': f'echo join >> {trail}', 'after': ['map']},
                         {'name': 'map', 'command': f'echo map >> {trail}', 'array': 3, 'after': ['split']},
                         {'name': 'split', 'command': f'echo split >> {trail}'}]}
        told = self.json('submit', '--dag', self.write('dag.json', dag), '--wait')
        self.assertEqual([(one['name'], one['task'], one['count']) for one in told['tasks']],
                         [('split', 1, 1), ('map', 2, 3), ('join', 5, 1)])
        self.assertEqual(trail.read_text().split(), ['split', 'map', 'map', 'map', 'join'])
        for change, text in (({'after': ['mop']}, "did you mean 'map'"), ({'after': ['join']}, 'waits for itself'),
                             ({'name': 'map'}, "two tasks are called 'map'"), ({'gang': 0}, 'gang'),
                             ({'required_gpus': 9}, 'none was submitted')):
            bad = json.loads(json.dumps(dag))
            bad['tasks'][0].update(change)
            self.assert_fails(self.call('submit', '--dag', self.write('bad.json', bad)), text)
        self.assertEqual(len(self.json('tasks')), 5)

    def test_variables_out_of_a_file(self):
        self.start_worker(gpus=0)
        path = self.write('env', '# colours\nCOLOUR=blue\n\nSHAPE=a = b\n')
        task = self.script('echo $COLOUR, $SHAPE', flags=['--env-file', path, '--env', 'COLOUR=red'])
        self.assertEqual(self.wait(task)['succeeded'], 1)
        self.assertEqual(self.done('logs', task), 'red, a = b\n')
        self.assert_fails(self.call('submit', '--gpus', 0, '--env-file', self.write('bad', 'A=1\nB\n'), '--', 'true'),
                          "bad:2: 'B' is not of the form KEY=VALUE")

    def test_what_a_task_used_is_kept_with_its_end(self):
        self.start_worker(gpus=0)
        task = self.script("python3 -c 'x = bytearray(64 << 20); [i * i for i in range(1000000)]'")
        self.assertEqual(self.wait(task)['succeeded'], 1)
        end = self.task(task)['end']
        self.assertGreater(end['peak_memory_mb'], 64)
        self.assertGreater(end['cpu_s'], 0)
        self.assertIn('MB at most', self.done('task', task))

    def test_a_container_runs_where_there_is_something_to_run_it(self):
        self.start_worker(gpus=0)
        task = self.submit('echo', 'hello there', flags=['--container', 'docker.io/library/debian'])
        self.assertEqual(self.wait(task)['failed'], 1)
        self.assertIn('neither podman nor apptainer', self.task(task)['end']['message'])
        self.assert_fails(self.call('submit', '--name', 'x', '--container', 'debian', '--gpus', 0), 'needs a command')
        # A stand-in that shows what podman is asked for; podman itself is seldom where tests run.
        tools = self.folder / 'tools'
        tools.mkdir()
        stand_in = tools / 'podman'
        stand_in.write_text('#!/bin/sh\nfor word; do echo "[$word]"; done\n')
        stand_in.chmod(0o755)
        with unittest.mock.patch.dict(os.environ, PATH=f"{tools}:{os.environ['PATH']}"):
            self.start_worker('--label', 'tools=podman', gpus=0)
        task = self.submit('echo', 'hello there', flags=['--container', 'debian', '--label', 'tools=podman',
                                                         '--env', 'COLOUR=a b'])
        self.assertEqual(self.wait(task)['succeeded'], 1)
        words = self.done('logs', task).splitlines()
        self.assertEqual((words[0], words[-3:]), ('[run]', ['[debian]', '[echo]', '[hello there]']))
        self.assertIn('[--env=COLOUR]', words)

    def test_priorities_change(self):
        self.start_worker('--cpus', 1, gpus=0)
        first = self.script(self.held())
        self.until_launched(first)
        slow, fast = self.script(f'echo slow >> {self.folder}/order'), self.script(f'echo fast >> {self.folder}/order')
        self.assertEqual(self.json('priority', slow, -5), {'task': slow, 'priority': -5})
        self.assertEqual(self.task(slow)['spec']['priority'], -5)
        self.release()
        self.assertEqual(self.wait(first, slow, fast)['succeeded'], 3)
        self.assertEqual((self.folder / 'order').read_text().split(), ['fast', 'slow'])
        self.assert_fails(self.call('priority', slow, 0), 'has already ended')
        self.assert_fails(self.call('priority', 99, 0), 'there is no task 99')


if __name__ == '__main__':
    unittest.main()
