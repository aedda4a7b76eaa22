"""harmonics plan: from a real profile to parts that give the same outputs as the whole graph."""

import json
import re
import subprocess
import unittest

import program

DEVICES = 'here: [h0, h1]\nslow: [s0]\nslower: [t0]\n'


class PlanTest(program.CliTest):
    def setUp(self):
        super().setUp()
        self.done('profile', self.net, '--batch-size', '8', '--type', 'here', '--bw-mbps', '10000',
                  '--mem-mb', '1000', '--repeats', '1', '--threads', '1', '--output', 'quiet')
        self.types = (self.folder / 'device_types.yml').read_text()
        self.write('device_types.yml', self.types + self.slower('slow', 2) + self.slower('slower', 3))
        self.write('devices.yml', DEVICES)

    def slower(self, name, factor):
        """The measured type under another name, with longer times."""
        def scale(match):
            times = [float(number) * factor for number in match.group(1).split(',')]
            return 'time_s: [' + ', '.join(map(repr, times)) + ']'
        text = re.sub(r'time_s: \[([^\]]*)\]', scale, self.types)
        return re.sub(r'(?m)^here:', f'{name}:', text)

    def even(self, layer_ms):
        """Replaces the measured times, so that a plan is known beforehand."""
        times = ', '.join([str(layer_ms / 1000)] * 5)
        return re.sub(r'time_s: \[[^\]]*\]', f'time_s: [{times}]', self.types)

    def test_parts_give_the_same_outputs_as_the_whole(self):
        # A second a layer dwarfs the network, so that every host gets work.
        self.write('device_types.yml', self.even(1000) + re.sub('here', 'slow', self.even(2000)) +
                   re.sub('here', 'slower', self.even(3000)))
        self.done('train', self.net, '--epochs', '1', '--checkpoint', 'w.safetensors')
        self.done('run', self.net, '--weights', 'w.safetensors', '--out', 'prediction=csv:whole.csv',
                  '--threads', '1', '--batch-size', '8')
        report = json.loads(self.done('plan', self.net, '--out-dir', 'parts', '--output', 'json'))
        self.assertGreaterEqual(len(report['stages']), 3)
        files = report['files'][:-1]
        self.assertEqual(len(files), len(report['stages']))
        bound = ['--bind', 'point=csv:points.csv?columns=0-3']
        for number, file in enumerate(files, 1):
            # `run` takes whole graphs: boundaries become ordinary ends, the layers stay as they are.
            text = (self.folder / file).read_text()
            part = self.write(f'part{number}.harp',
                              re.sub(r' gradients \d+', '', text.replace('@', '_to_')))
            outputs = re.findall(r'consumer (\S+?)[ ;]', part.read_text())
            self.assertEqual(len(outputs), 1, text)
            table = f'out{number}.csv'
            self.done('run', part, '--weights', 'w.safetensors', *bound, '--out',
                      f'{outputs[0]}=csv:{table}', '--threads', '1', '--batch-size', '8')
            bound = ['--bind', f'{outputs[0]}=csv:{table}']
        self.assertEqual((self.folder / table).read_text(), (self.folder / 'whole.csv').read_text())

    def test_a_real_profile_gives_a_plan_whose_parts_are_in_order(self):
        report = json.loads(self.done('plan', self.net, '--out-dir', 'parts', '--output', 'json'))
        self.assertTrue(report['proven'])
        self.assertEqual(report['stages'][0]['layers'][0], 1)
        self.assertEqual(report['stages'][-1]['layers'][1], 5)
        for file in report['files'][:-1]:
            self.assertIn('is in order', self.done('graph', 'check', file))

    def test_the_graph_with_its_branches_is_written(self):
        report = json.loads(self.done('plan', self.net, '--dag', 'dag.json', '--output', 'json'))
        self.assertIn('dag.json', report['files'])
        dag = json.loads((self.folder / 'dag.json').read_text())
        self.assertEqual([device['type'] for device in dag['devices']], ['here', 'slow', 'slower'])
        self.assertEqual(len(dag['nodes']), 5)
        self.assertEqual(dag['edges'][0]['from'], dag['nodes'][0]['name'])
        done = subprocess.run([str(program.BINARY_DIR / 'sched-pipeline'), '--dag', 'dag.json', '--report', 'json'], cwd=self.folder,
                              capture_output=True, text=True, check=True)
        planned = json.loads(done.stderr)
        self.assertTrue(planned['proven'])
        # A chain's plan counts the same costs here, and buffers besides.
        self.assertLessEqual(planned['period_s'], report['period_s'] * (1 + 1e-9))

    def test_files_are_named_by_stage_and_host(self):
        self.write('device_types.yml', self.even(1000) + re.sub('here', 'slow', self.even(2000)) +
                   re.sub('here', 'slower', self.even(9000)))
        (self.folder / 'parts').mkdir()
        self.write('parts/stage-09-old.harp', 'left by an earlier plan')
        self.write('parts/notes.txt', 'mine')
        self.done('plan', self.net, '--out-dir', 'parts')
        names = sorted(path.name for path in (self.folder / 'parts').iterdir())
        self.assertEqual(names[:2], ['notes.txt', 'plan.yml'])
        for number, name in enumerate(names[2:], 1):
            self.assertRegex(name, rf'^stage-0{number}-(h0|h1|s0|t0)\.harp$')
        plan = (self.folder / 'parts' / 'plan.yml').read_text()
        self.assertEqual(plan, self.done('plan', self.net, '--output', 'quiet'))
        self.assertEqual(len(plan.splitlines()), len(names) - 2)

    def test_unlike_hosts_take_turns_and_the_plan_runs(self):
        # Without a link between them, and with one layer that dwarfs the others, hosts can only take turns.
        times = 'time_s: [0.001, 3.0, 0.001, 0.001, 0.001]'
        types = re.sub(r'time_s: \[[^\]]*\]', times, self.types)
        self.write('device_types.yml', types + re.sub('here', 'slow', types.replace('3.0', '6.0')))
        self.write('devices.yml', 'here: [h0]\nslow: [s0]\n')
        report = json.loads(self.done('plan', self.net, '--pipelines', 'runnable', '--out-dir', 'parts', '--output', 'json'))
        self.assertEqual((report['shape'], report['runs']), ('row', True))
        self.assertGreater(report['samples_per_s'], 1.4 * report['one_pipeline_samples_per_s'])
        turns = [dict(zip(stage['hosts'], stage['turns'])) for stage in report['stages'] if 'turns' in stage]
        self.assertTrue(any(turn['h0'] == 2 * turn['s0'] for turn in turns), report['stages'])
        self.assertIn('parts/plan.yml', report['files'])
        self.done('train', self.net, '--epochs', '1', '--checkpoint', 'w.safetensors')
        self.write('plan.json', json.dumps(report))
        whole = ['run', self.net, '--weights', 'w.safetensors', '--threads', '1', '--batch-size', '8']
        self.done(*whole, '--out', 'prediction=csv:whole.csv')
        self.done(*whole, '--out', 'prediction=csv:turns.csv', '--plan', 'plan.json', '--processes')
        self.assertEqual((self.folder / 'turns.csv').read_text(), (self.folder / 'whole.csv').read_text())
        refused = {'model': 'net', 'batch_size': 8, 'shape': 'flow'}
        self.write('plan.json', json.dumps(refused))
        wrong = self.call(*whole, '--plan', 'plan.json', '--processes')
        self.assertNotEqual(wrong.returncode, 0)
        self.assertIn('over several routes, which no program runs yet', wrong.stderr)

    def test_sites_are_pipelines_of_their_own_and_each_runs(self):
        # Nobody holds all layers, and what crosses between the two sites takes hours.
        models = (self.folder / 'models.yml').read_text()
        self.write('models.yml', re.sub(r'mem_MB: \[[^\]]*\]', 'mem_MB: [100, 100, 100, 100, 100]', models))
        types = re.sub(r'mem_MB: \d+', 'mem_MB: 350', self.even(1000))
        self.write('device_types.yml', types + re.sub('here', 'slow', types.replace('1.0', '1.2')))
        self.write('devices.yml', 'here: [h0, h1]\nslow: [s0, s1]\n')
        self.write('links.yml', 'links:\n- between: [here, slow]\n  bw_Mbps: 0.000001\n')
        report = json.loads(self.done('plan', self.net, '--links-file', 'links.yml', '--pipelines', 'runnable', '--out-dir', 'parts',
                                      '--output', 'json'))
        self.assertEqual((report['shape'], len(report['pipelines'])), ('pipelines', 2))
        self.assertGreater(report['samples_per_s'], 1.5 * report['one_pipeline_samples_per_s'])
        self.done('train', self.net, '--epochs', '1', '--checkpoint', 'w.safetensors')
        whole = ['run', self.net, '--weights', 'w.safetensors', '--threads', '1', '--batch-size', '8']
        self.done(*whole, '--out', 'prediction=csv:whole.csv')
        for number in (1, 2):
            self.done(*whole, '--out', 'prediction=csv:one.csv', '--plan', f'parts/pipeline-{number}/plan.yml', '--processes')
            self.assertEqual((self.folder / 'one.csv').read_text(), (self.folder / 'whole.csv').read_text())
        self.write('plan.yml', ''.join((self.folder / f'parts/pipeline-{number}/plan.yml').read_text() for number in (1, 2)))
        self.assert_fails(self.call(*whole, '--plan', 'plan.yml', '--processes'), 'begins at layer 1 again', '--out-dir')

    def test_aims_and_the_front(self):
        self.write('device_types.yml', self.even(1000) + re.sub('here', 'slow', self.even(2000)))
        self.write('devices.yml', 'here: [h0, h1]\nslow: [s0]\n')
        table = self.done('plan', self.net, '--front', '--svg', 'front.svg')
        self.assertIn('best in / what binds', table)
        self.assertIn('</svg>', (self.folder / 'front.svg').read_text())
        front = json.loads(self.done('plan', self.net, '--front', '--output', 'json'))['front']
        self.assertEqual(front[-1]['hosts'], 1)
        report = json.loads(self.done('plan', self.net, '--deadline', '5.5', '--output', 'json'))
        self.assertLessEqual(report['latency_s'], 5.5)
        self.assertEqual(report['aim']['deadline_s'], 5.5)
        self.assertIn('deadline', self.done('plan', self.net, '--deadline', '5.5'))
        priced = (self.folder / 'device_types.yml').read_text().replace('  mem_MB', '  price_per_hour: 2\n  watts: 30\n  mem_MB')
        self.write('device_types.yml', priced)
        for goal in ('cost', 'energy'):
            report = json.loads(self.done('plan', self.net, '--goal', goal, '--output', 'json'))
            self.assertEqual((report['aim']['aim'], report['aim']['proven']), (goal, True))
        self.assertIn('needs --front', self.call('plan', self.net, '--svg', 'x.svg').stderr)
        self.assertIn('--pipelines: and --front do not go together',
                      self.call('plan', self.net, '--pipelines', 'auto', '--front').stderr)

    def test_table(self):
        table = self.done('plan', self.net)
        for text in ('- h', 'host', 'compute ms', 'transfer ms', 'memory MB', 'the bottleneck',
                     'per micro-batch of 8', 'proven'):
            self.assertIn(text, table)

    def test_choices(self):
        plan = self.done('plan', self.net, '--output', 'quiet', '--exclude', 'h0,h1,s0')
        self.assertEqual(plan, '- t0: [1, 5]\n')
        self.done('profile', self.net, '--batch-size', '2', '--type', 'here', '--repeats', '1',
                  '--output', 'quiet')
        report = json.loads(self.done('plan', self.net, '--batch-size', 'auto', '--output', 'json'))
        self.assertIn(report['batch_size'], (2, 8))
        report = json.loads(self.done('plan', self.net, '--goal', 'latency', '--output', 'json'))
        self.assertEqual(report['goal'], 'latency')

    def test_what_was_measured_is_planned_for(self):
        """Whoever profiled with another batch size need not say it again; what is said counts."""
        for size in '2', '4':
            self.done('profile', self.net, '--batch-size', size, '--type', f'only{size}', '--bw-mbps', '1000',
                      '--mem-mb', '1000', '--repeats', '1', '--threads', '1', '--output', 'quiet')
        self.write('devices.yml', 'only2: [h0]\n')
        self.assertEqual(json.loads(self.done('plan', self.net, '--output', 'json'))['batch_size'], 2)
        self.assertEqual(self.call('plan', self.net, '--batch-size', '8').returncode, 3)
        self.write('devices.yml', 'only2: [h0]\nonly4: [h1]\n')
        self.assertIn(json.loads(self.done('plan', self.net, '--output', 'json'))['batch_size'], (2, 4))
        self.write('devices.yml', 'here: [h2]\nonly2: [h0]\n')
        self.assertEqual(json.loads(self.done('plan', self.net, '--output', 'json'))['batch_size'], 8)

    def test_one_machine_alone_is_said_to_be_faster(self):
        self.write('device_types.yml', self.even(1000) + re.sub('here', 'slow', self.even(2000)) +
                   re.sub('here', 'slower', self.even(9000)))
        self.assertNotIn('alone', self.done('plan', self.net))
        self.assertFalse(json.loads(self.done('plan', self.net, '--output', 'json'))['alone']['is_faster'])
        self.done('profile', self.net, '--batch-size', '512', '--type', 'here', '--repeats', '1', '--threads', '1',
                  '--output', 'quiet')
        self.assertIn('one machine alone is faster: h0 makes', self.done('plan', self.net, '--batch-size', '8'))

    def test_training_is_told_in_the_order_of_its_micro_batches(self):
        self.done('profile', self.net, '--mode', 'training', '--type', 'here', '--repeats', '3', '--threads', '1',
                  '--output', 'quiet')
        text = self.done('plan', self.net, '--model-name', 'quadrant-training')
        self.assertIn('training in 1f1b order, 4 micro-batches of 8: ', text)
        given = ('--model-name', 'quadrant-training', '--micro-batches', '8', '--output', 'json')
        reports = {order: json.loads(self.done('plan', self.net, '--pipeline', order, *given))
                   for order in ('sequential', '1f1b', 'gpipe')}
        for order, report in reports.items():
            training = report['training']
            self.assertEqual((training['pipeline'], training['micro_batches']), (order, 8))
            for stage, trained in zip(report['stages'], training['stages']):
                self.assertAlmostEqual(trained['forward_s'] + trained['backward_s'], stage['compute_s'])
                self.assertEqual(trained['memory_mb'], stage['memory_mb'])
        self.assertLessEqual(reports['1f1b']['training']['batch_s'], reports['sequential']['training']['batch_s'])
        # Measured for inference alone.
        self.assert_fails(self.call('plan', self.net, '--pipeline', 'gpipe'), '--mode training')

    def test_replicate_lets_hosts_take_turns(self):
        self.write('device_types.yml', self.even(1000) + re.sub('here', 'slow', self.even(2000)) +
                   re.sub('here', 'slower', self.even(9000)))
        report = json.loads(self.done('plan', self.net, '--replicate', '--exclude', 's0,t0', '--output', 'json'))
        self.assertEqual([stage['hosts'] for stage in report['stages']], [['h0', 'h1']])
        self.assertAlmostEqual(report['period_s'], 2.5)

    def test_no_feasible_plan(self):
        small = re.sub(r'(?m)^  mem_MB: \d+', '  mem_MB: 0.0001', self.types)
        self.write('device_types.yml', small)
        self.write('devices.yml', 'here: [h0]\n')
        result = self.call('plan', self.net, '--out-dir', 'parts')
        self.assert_fails(result, 'no feasible plan: memory', code=3)
        self.assertNotIn('parts', self.names())
        result = self.call('plan', self.net, '--batch-size', '3')
        self.assert_fails(result, 'of a device type that was measured', code=3)

    def test_failures(self):
        cases = {
            ('lenet',): "'lenet' is not in 'models.yml', which has quadrant: measure it with "
                        "'harmonics profile lenet'",
            (self.net, '--models-file', 'm.yml'): f"no file 'm.yml': 'harmonics profile {self.net}'",
            ('lenet', '--model-name', 'quadrant'): "was measured with 5 layers, graph 'lenet' has",
            (self.net, '--dev-file', 'none.yml'): "no file 'none.yml': write the hosts of each",
            (self.net, '--exclude', 'nobody'): "no host 'nobody'",
            (self.net, '--out-dir', 'points.csv'): 'points.csv',
        }
        for arguments, text in cases.items():
            with self.subTest(arguments):
                self.assert_fails(self.call('plan', *arguments), text)

    def test_wrong_usage(self):
        cases = {
            'plan': 'GRAPH is required',
            'plan net.harp --batch-size none': "'none' is not a whole number",
            'plan net.harp --dtype float': "unknown dtype 'float'",
            'plan net.harp --goal speed': "'speed' is none of throughput|latency",
            'plan net.harp --buffers-in -1': 'from 0 to',
        }
        for line, text in cases.items():
            with self.subTest(line):
                self.assert_fails(self.call(*line.split()), text, "\ntry 'harmonics", code=2)


if __name__ == '__main__':
    unittest.main()
