"""One test for each thing that the cluster does for a task."""

import json
import pathlib
import re
import subprocess
import unittest
import urllib.error
import urllib.request

from cluster import HARMONICS, SOURCE_DIR, ClusterTest, environment


class Features(ClusterTest):
    def setUp(self):
        super().setUp()
        self.server = self.start_server('--http', 0)

    def test_output_exit_codes_and_environment(self):
        self.start_worker()
        good = self.script('echo to-out; echo to-err >&2; echo $CUDA_VISIBLE_DEVICES $HARMONICS_PARAM_LR',
                           gpus=2, flags=['--param', 'lr=0.1', '--env', 'COLOUR=blue'])
        bad = self.script('exit 3')
        self.assertEqual(self.wait(good)['succeeded'], 1)
        self.assertEqual(self.wait(bad)['failed'], 1)
        self.assertEqual(self.done('logs', good), 'to-out\n0,1 0.1\n')
        self.assertEqual(self.done('logs', good, '--stream', 'err'), 'to-err\n')
        self.assertEqual(self.task(bad)['end']['exit_code'], 3)
        plain = self.script('echo ${GRPC_VERBOSITY-unset}')
        self.assertEqual(self.wait(plain)['succeeded'], 1)
        self.assertEqual(self.done('logs', plain), 'unset\n', "a worker's own settings stay its own")

    def test_following_a_log_until_the_end(self):
        self.start_worker()
        task = self.script(f'echo one; {self.held()} echo two')
        self.until_launched(task)
        follower = self.start('logs', *self.access(), '-f', task)
        self.until(lambda: self.printed(follower) == 'one\n', 'the first line')
        self.release()
        self.assertEqual(follower.wait(timeout=60), 0)
        self.assertEqual(self.printed(follower), 'one\ntwo\n')

    def test_output_that_is_cut_short_is_an_error(self):
        worker = self.start_worker('--id', 'w')
        size = 48 << 20
        task = self.script(f'head -c {size} /dev/zero; {self.held()}')
        files = self.state / 'workers' / 'id-w' / 'attempts' / f'{task}.1'
        self.until(lambda: sum(part.stat().st_size for part in files.glob('out.*')) == size, 'all of it')
        self.assert_fails(self.call('artifacts', task), f'attempt {task}.1 still runs')
        reader = subprocess.Popen([str(HARMONICS), 'logs', *self.access(), str(task)],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  env=environment(self.folder))
        self.addCleanup(self.kill, reader)
        read = len(reader.stdout.read(1 << 20))
        self.kill(worker)
        rest, said = reader.communicate(timeout=60)
        self.assertLess(read + len(rest), size)
        self.assertIn(f'cut short after byte {read + len(rest)}', said.decode())
        self.assertEqual(reader.returncode, 1)
        self.start_worker('--id', 'w')
        self.assertEqual(len(self.done('logs', task)), size)
        self.release()
        self.assertEqual(self.wait(task)['succeeded'], 1)
        self.assertEqual(self.json('artifacts', task), [])

    def test_cancel_kills_the_tree_and_frees_the_device(self):
        self.start_worker(gpus=1)
        task = self.script('setsid sleep 1000 & echo $!; trap "" TERM; wait; sleep 1000', gpus=1)
        self.until_launched(task)
        pid = int(self.until(lambda: self.done('logs', task).strip(), 'the pid'))
        self.done('cancel', task)
        self.assertEqual(self.wait(task)['cancelled'], 1)
        self.until(lambda: not pathlib.Path(f'/proc/{pid}').exists(), 'the grandchild to be gone')
        self.assertEqual(self.wait(self.script('true', gpus=1))['succeeded'], 1)

    def test_time_limit(self):
        self.start_worker()
        task = self.script('sleep 1000', flags=['--timeout', 1])
        self.assertEqual(self.wait(task)['failed'], 1)
        self.assertIn('time limit', self.task(task)['end']['message'])

    def test_retries_until_it_succeeds(self):
        self.start_worker()
        marks = self.folder / 'marks'
        task = self.script(f'echo x >> {marks}; [ $(wc -l < {marks}) = 2 ]', flags=['--retries', 3])
        self.assertEqual(self.wait(task)['succeeded'], 1)
        view = self.task(task)
        self.assertEqual((view['attempts'], view['failures']), (2, 1))
        self.assertEqual(self.done('logs', task, '--attempt', 1), '')

    def test_the_output_of_an_earlier_attempt_lies_where_that_one_ran(self):
        self.start_worker('--id', 'left')
        task = self.script(f'echo try $HARMONICS_ATTEMPT; {self.held()} [ $HARMONICS_ATTEMPT = 2 ]',
                           flags=['--retries', 1])
        self.until_launched(task)
        self.start_worker('--id', 'right')
        self.done('drain', 'left')
        self.release()
        self.assertEqual(self.wait(task)['succeeded'], 1)
        self.kill(self.server)
        self.start_server()
        self.until(lambda: len(self.json('workers')) == 2 and all(
            worker['state'] != 'away' for worker in self.json('workers')), 'both workers')
        for attempt in (1, 2):
            self.assertEqual(self.done('logs', task, '--attempt', attempt), f'try {attempt}\n')
        self.assertEqual(self.done('logs', task), 'try 2\n')
        self.assertEqual([(member['worker'], member['devices']) for member in self.task(task)['members']],
                         [('right', [])])
        self.assertIn('where       right\n', self.done('task', task))
        self.assertEqual([each['id'] for each in self.json('tasks', '--worker', 'right')], [task])
        self.assertEqual(self.json('tasks', '--worker', 'left'), [])
        self.assert_fails(self.call('logs', task, '--attempt', 3), 'has attempts 1 to 2')

    def test_array(self):
        self.start_worker()
        first = self.script(f'echo $HARMONICS_ARRAY_INDEX > {self.folder}/index-$HARMONICS_ARRAY_INDEX',
                            flags=['--array', 20])
        self.assertEqual(self.wait(first)['succeeded'], 20)
        for index in range(20):
            self.assertEqual((self.folder / f'index-{index}').read_text(), f'{index}\n')

    def test_dependencies(self):
        self.start_worker()
        first = self.script(self.held())
        second = self.script('true', flags=['--after', first])
        self.assertEqual(self.state_of(second), 'waiting')
        self.assertEqual(self.json('why', second)['reason'], 'dependencies')
        bad = self.script(self.held('fail', 'false'))
        orphan = self.script('true', flags=['--after', bad])
        self.release('fail')
        self.assertEqual(self.wait(orphan)['dependency_failed'], 1)
        self.release()
        self.assertEqual(self.wait(first, second)['succeeded'], 2)

    def test_gang_is_all_or_nothing(self):
        self.start_worker(gpus=1)
        gang = self.script('echo $HARMONICS_GANG_RANK of $HARMONICS_GANG_SIZE', gpus=1,
                           flags=['--gang', 2])
        self.assertEqual(self.state_of(gang), 'pending')
        self.start_worker(gpus=1)
        self.assertEqual(self.wait(gang)['succeeded'], 1)
        said = {self.done('logs', gang, '--rank', rank) for rank in (0, 1)}
        self.assertEqual(said, {'0 of 2\n', '1 of 2\n'})

    def test_priority_preempts_and_the_displaced_runs_again(self):
        self.start_worker(gpus=1)
        low = self.script(self.held(), gpus=1)
        self.until_launched(low)
        high = self.script('true', gpus=1, flags=['--priority', 10])
        self.assertEqual(self.wait(high)['succeeded'], 1)
        self.release()
        self.assertEqual(self.wait(low)['succeeded'], 1)
        self.assertEqual(self.task(low)['preemptions'], 1)

    def test_small_tasks_fill_gaps_without_delaying_the_head(self):
        self.start_worker(gpus=2)
        running = self.script(self.held(), gpus=1, flags=['--timeout', 600])
        self.until_launched(running)
        head = self.script('true', gpus=2)
        self.assertEqual(self.json('why', head)['reason'], 'busy')
        # It ends before the running one can, so the head loses nothing.
        filler = self.script('true', gpus=1, flags=['--timeout', 10])
        self.assertEqual(self.wait(filler)['succeeded'], 1)
        self.assertEqual(self.state_of(head), 'pending')
        endless = self.script('true', gpus=1)
        self.assertEqual(self.json('why', endless)['reason'], 'reserved')
        self.release()
        self.assertEqual(self.wait(running, head, endless)['succeeded'], 3)

    def test_quota_holds_tasks_back(self):
        self.start_worker(gpus=4)
        user = self.task(self.script('true'))['user']
        self.done('quota', user, '--gpus', 1)
        tasks = [self.script(self.held(), gpus=1) for _ in range(3)]
        self.until_launched(tasks[0])
        self.assertEqual([self.state_of(task) for task in tasks], ['active', 'pending', 'pending'])
        self.assertEqual(self.json('why', tasks[1])['reason'], 'quota')
        self.release()
        self.assertEqual(self.wait(*tasks)['succeeded'], 3)

    def test_fair_share_follows_the_weights(self):
        tokens = self.folder / 'tokens'
        tokens.write_text(''.join(f'submit {user} {user[0] * 32}\n' for user in ('ann', 'bob')))
        self.kill(self.server)
        self.server = self.start_server('--tokens', tokens)
        self.done('quota', 'bob', '--weight', 3)
        tasks = {}
        for user in ('ann', 'bob'):
            token = self.folder / f'{user}.token'
            token.write_text(user[0] * 32)
            token.chmod(0o600)
            tasks[user] = self.script(self.held(), gpus=1,
                                      flags=['--token-file', token, '--array', 8])
        # Everything is in the queue before there is a place; then four devices are shared 1 : 3.
        self.start_worker(gpus=4)
        active = self.until(lambda: (lambda found: len(found) == 4 and found)(
            [task['user'] for task in self.json('tasks', '--state', 'active')]), 'four to run')
        self.assertEqual(sorted(active), ['ann', 'bob', 'bob', 'bob'])
        self.release()
        self.assertEqual(self.wait(*tasks.values())['succeeded'], 16)

    def test_artifacts_are_kept_and_fetched(self):
        worker = self.start_worker('--id', 'w')
        big = 20 << 20
        made = self.script(f'mkdir out; echo one > out/a.txt; echo two > b.txt; echo no > c.log; '
                           f'head -c {big} /dev/zero > out/big',
                           flags=['--artifact', 'out', '--artifact', '*.txt', '--artifact', 'absent'])
        self.assertEqual(self.wait(made)['succeeded'], 1)
        self.assertIn("nothing matches 'absent'", self.task(made)['end']['message'])
        listed = {one['path']: one['bytes'] for one in self.json('artifacts', made)}
        self.assertEqual(listed, {'b.txt': 4, 'out/a.txt': 4, 'out/big': big})
        # They outlive both daemons.
        self.kill(worker)
        self.kill(self.server)
        self.server = self.start_server()
        self.start_worker('--id', 'w')
        self.done('artifacts', made, '--to', 'fetched')
        self.assertEqual((self.folder / 'fetched/out/a.txt').read_text(), 'one\n')
        self.assertEqual((self.folder / 'fetched/out/big').stat().st_size, big)
        self.assertFalse((self.folder / 'fetched/c.log').exists())
        self.done('artifacts', made, 'b.txt', '--to', 'one')
        self.assertEqual([path.name for path in (self.folder / 'one').iterdir()], ['b.txt'])
        self.assert_fails(self.call('artifacts', made, 'c.log'), "no artifact 'c.log'")
        self.assert_fails(self.call('submit', '--name', 'x', '--artifact', '../x', '--', 'true'),
                          "'../x' must be a path below")

    def test_artifacts_of_a_named_folder_are_copies(self):
        self.start_worker()
        place = self.folder / 'place'
        place.mkdir()
        task = self.script('echo $HARMONICS_TASK_ID > result',
                           flags=['--workdir', place, '--artifact', 'result'])
        self.assertEqual(self.wait(task)['succeeded'], 1)
        (place / 'result').write_text('overwritten')
        self.done('artifacts', task, '--to', 'fetched')
        self.assertEqual((self.folder / 'fetched/result').read_text(), f'{task}\n')

    def make_project(self):
        """A script and what it needs, in the folder that `submit` is called in."""
        project = self.folder / 'project'
        (project / 'lib').mkdir(parents=True)
        (project / '.git').mkdir()
        (project / '.git' / 'large').write_bytes(b'x' * (600 << 10))
        (project / 'run.sh').write_text('#!/bin/sh\n. lib/words.sh\nsay "$1 $HARMONICS_ARRAY_INDEX"\n'
                                        'mkdir -p out; pwd > out/place; cp lib/raw out/raw\n')
        (project / 'run.sh').chmod(0o755)
        (project / 'lib' / 'words.sh').write_text('say() { echo "said $*"; }\n')
        (project / 'lib' / 'raw').write_bytes(bytes(range(256)))
        return project

    def upload(self, project, *command, flags=()):
        answer = subprocess.run(
            [str(HARMONICS), 'submit', *self.access(), '--output', 'quiet', '--name', 'up', '--gpus', '0',
             *map(str, flags), '--upload', '.', '--', *command],
            capture_output=True, text=True, timeout=120, cwd=project, env=environment(self.folder))
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return int(answer.stdout)

    def test_a_script_goes_with_its_task(self):
        worker = self.start_worker('--id', 'w')
        project = self.make_project()
        task = self.upload(project, './run.sh', 'hello', flags=['--artifact', 'out'])
        self.assertEqual(self.wait(task)['succeeded'], 1)
        self.assertEqual(self.done('logs', task), 'said hello 0\n')
        self.assertEqual({one['path'] for one in self.json('artifacts', task)}, {'out/place', 'out/raw'})
        self.done('artifacts', task, '--to', 'fetched')
        self.assertEqual((self.folder / 'fetched/out/raw').read_bytes(), bytes(range(256)))
        # Its names are told, what is in it is not.
        view = self.task(task)
        self.assertEqual({one['path']: (one['bytes'], one['executable']) for one in view['files']},
                         {'run.sh': ((project / 'run.sh').stat().st_size, True),
                          'lib/raw': (256, False),
                          'lib/words.sh': ((project / 'lib/words.sh').stat().st_size, False)})
        self.assertNotIn('files', view['spec'])
        self.assertRegex(self.done('task', task), r'file        run.sh  \d+ bytes, executable\n')
        self.assertNotIn('said $*', self.done('task', task) + json.dumps(self.json('tasks')))
        # A folder among them is where it runs; a task that waits keeps its files over a restart.
        inside = self.upload(project, 'sh', '-c', f'{self.held()} pwd; ls', flags=['--chdir', 'lib'])
        self.kill(worker)
        self.kill(self.server)
        self.server = self.start_server()
        self.start_worker('--id', 'w')
        late = self.upload(project, 'cat', 'words.sh', flags=['--workdir', './lib/'])
        self.release()
        self.assertEqual(self.wait(inside, late)['succeeded'], 2)
        place, *names = self.done('logs', inside).splitlines()
        self.assertEqual(pathlib.Path(place).name, 'lib')
        self.assertEqual(names, ['raw', 'words.sh'])
        self.assertEqual(self.done('logs', late), 'say() { echo "said $*"; }\n')

    def test_files_go_with_every_task_of_an_array_and_a_gang(self):
        self.start_worker('--id', 'a', gpus=1)
        project = self.make_project()
        array = self.upload(project, './run.sh', 'index', flags=['--array', 5])
        self.assertEqual(self.wait(array)['succeeded'], 5)
        self.assertEqual([self.done('logs', array + i) for i in range(5)],
                         [f'said index {i}\n' for i in range(5)])
        self.start_worker('--id', 'b', gpus=1)
        gang = self.upload(project, './run.sh', 'gang', flags=['--gang', 2])
        self.assertEqual(self.wait(gang)['succeeded'], 1)
        for rank in (0, 1):
            self.assertEqual(self.done('logs', gang, '--rank', rank), 'said gang 0\n')

    def test_too_many_and_strange_files_are_refused(self):
        project = self.make_project()

        def refused(*arguments):
            return subprocess.run([str(HARMONICS), 'submit', *self.access(), '--name', 'up', *arguments],
                                  capture_output=True, text=True, timeout=120, cwd=project,
                                  env=environment(self.folder))
        (project / 'large').write_bytes(b'x' * (512 << 10))
        self.assert_fails(refused('--upload', '.', '--', 'true'), f"with '{project}/large' (524288 bytes)",
                          'more than 256 files or 512 KiB')
        (project / 'large').unlink()
        self.assert_fails(refused('--upload', 'absent', '--', 'true'), "absent' is neither a file nor a folder")
        self.assert_fails(refused('--upload', '.', '--chdir', '/tmp', '--', 'true'), "not '/tmp'")
        self.assert_fails(refused('--upload', '.', '--chdir', '../x', '--', 'true'), "not '../x'")
        many = project / 'many'
        many.mkdir()
        for i in range(257):
            (many / f'{i:03}').touch()
        self.assert_fails(refused('--upload', 'many', '--', 'true'), "many/256'", 'more than 256 files')
        hostile = self.folder / 'hostile.json'
        for path in ('../escape', '/etc/escape', 'a/../../b'):
            hostile.write_text(json.dumps({'name': 'x', 'command': ['true'],
                                           'files': [{'path': path, 'text': ''}]}))
            self.assert_fails(refused('--config', str(hostile)), f"'{path}' is no relative path")

    def test_the_kernel_keeps_tasks_within_their_memory(self):
        worker = self.start_worker(gpus=0)
        text = 'block = bytearray(200 << 20)'
        task = self.submit('python3', '-c', text, flags=['--host-memory', 60, '--cpus', 1])
        self.wait(task)
        if 'not enforced' in self.printed(worker):
            # A machine without cgroups for this user: the worker says so, and the task runs.
            self.assertEqual(self.state_of(task), 'succeeded')
            self.skipTest(self.printed(worker))
        self.assertIn('more memory than its 60 MB', self.task(task)['end']['message'])
        self.assertEqual(self.state_of(task), 'failed')
        self.assertEqual(self.wait(self.submit('true', flags=['--host-memory', 60]))['succeeded'], 1)

    def test_drain_and_back(self):
        self.start_worker(gpus=1)
        running = self.script(self.held())
        self.until_launched(running)
        self.done('drain', 'worker-1')
        held = self.script('true')
        self.assertEqual(self.state_of(held), 'pending')
        self.release()
        self.assertEqual(self.wait(running)['succeeded'], 1)
        self.assertEqual(self.state_of(held), 'pending')
        self.done('drain', 'worker-1', '--undo')
        self.assertEqual(self.wait(held)['succeeded'], 1)

    def test_the_same_key_is_the_same_task(self):
        first = self.script('true', flags=['--key', 'nightly'])
        self.assertEqual(self.script('true', flags=['--key', 'nightly']), first)
        self.assertNotEqual(self.script('true', flags=['--key', 'other']), first)

    def test_why_says_what_can_never_be(self):
        self.start_worker(gpus=1)
        task = self.submit('true', gpus=9, flags=['--wait-for-machines'])
        self.assertEqual(self.json('why', task)['reason'], 'impossible')

    def test_submit_says_at_once_what_nobody_could_run(self):
        self.start_worker(gpus=0)
        answer = self.call('submit', '--name', 'x', '--', 'true')
        self.assertEqual((answer.returncode, answer.stdout), (1, ''))
        self.assertIn('No worker has a GPU: with --gpus 0 it would run', answer.stderr)
        answer = self.call('submit', '--name', 'x', '--wait-for-machines', '--', 'true')
        self.assertEqual(answer.returncode, 0)
        self.assertIn('submitted task', answer.stdout)
        self.assertIn('No worker has a GPU: with --gpus 0 it would run', answer.stderr)
        self.assertIn('--gpus 0', self.done('why', 1))
        told = json.loads(self.done('submit', '--output', 'json', '--wait-for-machines', '--name', 'x', '--', 'true'))
        self.assertIn('--gpus 0', told['advice'])
        fits = self.call('submit', '--name', 'x', '--gpus', 0, '--', 'true')
        self.assertEqual(fits.stderr, '')

    def test_tasks_without_devices_run_one_on_a_core(self):
        self.start_worker('--cpus', 2, gpus=0)
        tasks = self.script(self.held(), flags=['--array', 6])
        self.until_launched(tasks + 1)
        states = [self.state_of(tasks + i) for i in range(6)]
        self.assertEqual(states, ['active'] * 2 + ['pending'] * 4)
        self.assertEqual(self.json('why', tasks + 5)['reason'], 'busy')
        # Whoever wants them uncounted says so.
        free = self.script('true', flags=['--cpus', 0])
        self.assertEqual(self.wait(free)['succeeded'], 1)
        self.release()
        self.assertEqual(self.wait(tasks)['succeeded'], 6)

    def test_a_task_for_cores_runs_beside_one_that_waits_for_a_device(self):
        self.start_worker('--cpus', 2, gpus=1)
        running = self.script(self.held(), gpus=1)
        self.until_launched(running)
        waits = self.script('true', gpus=1)
        self.assertEqual(self.wait(self.script('true'))['succeeded'], 1)
        self.assertEqual(self.state_of(waits), 'pending')
        self.release()
        self.assertEqual(self.wait(running, waits)['succeeded'], 2)

    def test_progress_and_metrics(self):
        self.start_worker(gpus=0)
        task = self.script('echo \'{"progress": 0.5, "loss": 0.25}\' >&$HARMONICS_PROGRESS_FD; '
                           + self.held())
        self.until(lambda: (self.task(task)['progress'] or {}).get('loss') == 0.25, 'progress')
        self.assertIn('50 %', self.done('monitor'))
        self.release()
        self.wait(task)
        self.assertEqual(json.loads(self.done('logs', task, '--stream', 'metrics'))['progress'], 0.5)

    def test_metrics_page_and_status(self):
        self.start_worker()
        self.wait(self.script('true'))
        url = re.search(r'(http://\S+)/metrics', self.printed(self.server)).group(1)
        with urllib.request.urlopen(self.with_token(url + '/metrics'), timeout=60) as page:
            text = page.read().decode()
        self.assertIn('harmonics_tasks_ended_total{outcome="succeeded"} 1\n', text)
        self.assertIn('harmonics_workers_connected 1\n', text)
        self.assertIn('harmonics_task_wait_seconds_count 1\n', text)
        self.assertIn('harmonics_attempt_run_seconds_bucket{le="+Inf"} 1\n', text)
        self.assertIn('harmonics_worker_devices{worker="worker-1"} 2\n', text)
        self.assertRegex(text, r'harmonics_user_tasks\{user="\w+",state="active"\} 0\n')
        self.assertRegex(text, r'harmonics_build_info\{version="[\d.]+",policy="balanced",build="\w+"\} 1\n')
        self.assertRegex(text, r'process_open_fds [1-9]')
        with urllib.request.urlopen(self.with_token(url + '/status'), timeout=60) as page:
            self.assertEqual(json.load(page)['tasks']['ended'], 1)
        with self.assertRaises(urllib.error.HTTPError) as missing:
            urllib.request.urlopen(url + '/nothing', timeout=60)
        self.assertEqual(missing.exception.code, 404)
        self.assertIn('there are /, /metrics and /status', missing.exception.read().decode())

    def test_task_file_of_the_seed_is_taken_as_it_is(self):
        sample = SOURCE_DIR / 'examples' / 'sample_task.json'
        task = int(self.done('submit', '--config', sample, '--output', 'quiet'))
        spec = self.task(task)['spec']
        self.assertEqual(spec, json.loads(sample.read_text()))


if __name__ == '__main__':
    unittest.main()
