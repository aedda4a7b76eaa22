"""harmonics train and harmonics run on a small data set."""

import csv
import json
import math
import unittest

import program

REPORT_KEYS = {'micro_batches', 'graph', 'epochs', 'steps', 'train_loss', 'train_accuracy', 'test_loss',
               'test_accuracy', 'weights_digest', 'seconds', 'samples_per_second', 'parts',
               'replicas', 'seed', 'checkpoint', 'stopped_early', 'interrupted', 'was_complete'}


class TrainTest(program.CliTest):
    def test_report(self):
        report = self.train('--checkpoint', 'run.safetensors')
        self.assertEqual(set(report), REPORT_KEYS)
        self.assertEqual((report['epochs'], report['steps']), (3, 18))  # 48 rows of 64, in eights
        self.assertEqual((report['parts'], report['seed']), (1, 1))
        self.assertEqual(report['checkpoint'], 'run.safetensors')
        self.assertFalse(report['interrupted'])
        self.assertRegex(report['weights_digest'], '^[0-9a-f]{64}$')
        self.assertGreater(report['seconds'], 0)
        self.assertGreater(report['samples_per_second'], 0)

    def test_examples_run_as_they_stand(self):
        for name in ('mnist', 'transformer'):
            with self.subTest(name):
                done = self.call('train', program.EXAMPLES / f'{name}.harp', '--epochs', '1', '--output', 'json')
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertTrue(math.isfinite(json.loads(done.stdout)['train_loss']))

    def test_without_a_test_split_nothing_is_tested(self):
        report = self.train('--test-split', '0')
        self.assertEqual(REPORT_KEYS - set(report), {'test_loss', 'test_accuracy'})
        self.assertEqual(report['steps'], 24)
        self.assertIsNone(report['checkpoint'])

    def test_it_learns(self):
        self.write('points.csv', program.points(512))
        report = self.train('--epochs', '40', '--lr', '0.01')
        self.assertGreater(report['test_accuracy'], 0.8)
        self.assertLess(report['train_loss'], 0.9)

    def test_output_styles(self):
        report = self.train()
        quiet = self.call('train', self.net, '--output', 'quiet')
        self.assertEqual((quiet.stdout, quiet.stderr), (report['weights_digest'] + '\n', ''))
        table = self.call('train', self.net)
        self.assertIn(report['weights_digest'], table.stdout)
        self.assertIn(f"loss {report['test_loss']:.4f}", table.stdout)
        lines = table.stderr.splitlines()
        self.assertEqual(len(lines), 3)
        for number, line in enumerate(lines, 1):
            self.assertRegex(line, rf'^epoch {number}/3  loss \d.*accuracy .* %  test loss .*samples/s$')

    def test_flags_win_over_the_file(self):
        self.assertEqual(self.train('--epochs', '1', '--batch-size', '48')['steps'], 1)
        other = self.write('other.csv', program.points(24, seed=6))
        flags = ['--bind', f'point=csv:{other}?columns=0-3', '--bind', f'label=csv:{other}?columns=4']
        self.assertEqual(self.train(*flags)['steps'], 9)
        self.assertNotEqual(self.train()['weights_digest'],
                            self.train('--seed', '2')['weights_digest'])

    def test_settings_change_the_result(self):
        digests = {self.train(*flags.split())['weights_digest'] for flags in (
            '', '--lr 0.01', '--optimizer sgd', '--optimizer sgd --momentum 0.5', '--no-shuffle',
            '--optimizer adamw --weight-decay 0.1', '--optimizer adamw --weight-decay 0.1 --decay weights',
            '--beta1 0.8', '--beta2 0.9', '--epsilon 0.01', '--clip 0.01', '--schedule cosine', '--warmup 9',
            '--schedule step --step-every 5 --step-factor 0.5', '--micro-batches 2', '--batch-size 7')}
        self.assertEqual(len(digests), 16)

    def test_paths_are_relative_to_their_writer(self):
        below = self.folder / 'below'
        below.mkdir()
        expected = self.train()['weights_digest']
        from_below = self.call('train', '../net.harp', '--output', 'quiet', cwd=below)
        self.assertEqual(from_below.stdout.strip(), expected)
        (below / 'points.csv').write_text(program.points(64))
        flags = ('--bind', 'point=csv:points.csv?columns=0-3')
        from_flag = self.call('train', '../net.harp', '--output', 'quiet', *flags, cwd=below)
        self.assertEqual(from_flag.stdout.strip(), expected)

    def test_shapes_come_from_the_data(self):
        text = program.GRAPH.replace('point {4}', 'point').replace('consumer prediction {4}',
                                                                   'consumer prediction')
        self.net = self.write('net.harp', text + program.DATA + program.TRAIN)
        self.assertEqual(self.train()['steps'], 18)
        self.assertEqual(self.train('--parts', '2')['steps'], 18)

    def test_the_same_weights_in_any_number_of_parts(self):
        flags = ('--micro-batches', '2', '--clip', '1', '--threads', '1')
        reports = [self.train('--parts', parts, *flags) for parts in ('1', '2', '3', '4')]
        self.assertEqual([report['parts'] for report in reports], [1, 2, 3, 4])
        for key in ('weights_digest', 'train_loss', 'test_loss'):
            self.assertEqual(len({report[key] for report in reports}), 1, key)

    def test_the_same_weights_in_every_pipeline_order(self):
        flags = ('--micro-batches', '4', '--clip', '1', '--threads', '1', '--parts', '3', '--pipeline')
        reports = [self.train(*flags, order) for order in ('sequential', '1f1b', 'gpipe')]
        for key in ('weights_digest', 'train_loss', 'test_loss'):
            self.assertEqual(len({report[key] for report in reports}), 1, key)
        self.assert_fails(self.call('train', self.net, '--pipeline', 'zigzag'),
                          'sequential|1f1b|gpipe', code=2)

    def test_recompute(self):
        kept = self.train('--parts', '2', '--micro-batches', '2')['weights_digest']
        for stretches in ('2', 'auto'):
            self.assertEqual(kept, self.train('--parts', '2', '--micro-batches', '2', '--recompute',
                                              stretches)['weights_digest'], stretches)

    def test_replicas_learn_what_one_process_learns(self):
        def digits(*flags):
            result = self.call('train', program.EXAMPLES / 'digits.harp', '--output', 'json',
                               '--epochs', '2', '--threads', '1', '--clip', '1', *flags)
            self.assertEqual(result.returncode, 0, result.stderr)
            return json.loads(result.stdout)
        for count in ('2', '4'):
            alone = digits('--micro-batches', count)
            together = digits('--replicas', count)
            self.assertEqual(together['replicas'], int(count))
            for key in ('weights_digest', 'steps', 'test_loss', 'test_accuracy'):
                self.assertEqual(together[key], alone[key], key)
            self.assertEqual(digits('--replicas', count, '--parts', '2')['weights_digest'],
                             alone['weights_digest'])
        for order in ('tree', 'ring'):
            reports = [digits('--replicas', '3', '--reduction', order) for _ in range(2)]
            self.assertEqual(reports[0]['weights_digest'], reports[1]['weights_digest'])
            # Three shares round otherwise than one batch, and Adam takes it on for two epochs.
            self.assertAlmostEqual(reports[0]['train_loss'], digits()['train_loss'], 3)

    def test_replicas_stop_early_and_resume(self):
        flags = ('--threads', '1', '--epochs', '4')
        whole = self.train('--replicas', '2', *flags)
        self.train('--replicas', '2', '--threads', '1', '--epochs', '2', '--checkpoint', 'c')
        resumed = self.train('--replicas', '2', *flags, '--checkpoint', 'c', '--resume')
        self.assertEqual(resumed['weights_digest'], whole['weights_digest'])
        report = self.train('--replicas', '3', '--epochs', '50', '--lr', '0', '--patience', '2')
        self.assertTrue(report['stopped_early'])

    def test_replicas_in_processes(self):
        for flags in (('--replicas', '2'), ('--replicas', '2', '--parts', '2', '--clip', '1')):
            here = self.train('--threads', '1', *flags)
            for transport in ('shm', 'tcp'):
                apart = self.train('--threads', '1', *flags, '--processes', '--transport', transport)
                for key in ('weights_digest', 'steps', 'replicas', 'train_loss', 'test_loss'):
                    self.assertEqual(apart[key], here[key], (key, flags, transport))
        self.train('--threads', '1', '--replicas', '2', '--processes', '--epochs', '1',
                   '--checkpoint', 'p')
        resumed = self.train('--threads', '1', '--replicas', '2', '--processes', '--checkpoint', 'p',
                             '--resume')
        self.assertEqual(resumed['weights_digest'],
                         self.train('--threads', '1', '--replicas', '2')['weights_digest'])

    def test_digits_train_with_no_further_arguments(self):
        result = self.call('train', program.EXAMPLES / 'digits.harp', '--output', 'json',
                           '--epochs', '2')
        report = json.loads(result.stdout)
        self.assertEqual(report['steps'], 2 * math.ceil((1797 - 359) / 32))
        self.assertGreater(report['test_accuracy'], 0.5)

    def test_early_stopping(self):
        report = self.train('--epochs', '50', '--lr', '0', '--patience', '2', '--checkpoint', 'c')
        # Running statistics still move with lr 0, so the first epochs may improve.
        self.assertTrue(report['stopped_early'])
        self.assertLess(report['epochs'], 50)
        again = self.train('--epochs', '50', '--lr', '0', '--patience', '2', '--checkpoint', 'c',
                           '--resume')
        self.assertTrue(again['was_complete'])
        self.assertEqual(again['weights_digest'], report['weights_digest'])
        self.assert_fails(self.call('train', self.net, '--patience', '1', '--test-split', '0'),
                          '--test-split')

    def test_metrics(self):
        self.train('--metrics', 'metrics.jsonl')
        lines = [json.loads(line) for line in (self.folder / 'metrics.jsonl').read_text().splitlines()]
        steps = [line for line in lines if 'step' in line]
        self.assertEqual([line['step'] for line in steps], list(range(1, 19)))
        epochs = [line for line in lines if 'epoch_done' in line]
        self.assertEqual([line['epoch_done'] for line in epochs], [1, 2, 3])
        self.assertIn('test_accuracy', epochs[-1])

    def test_start_weights(self):
        first = self.train('--checkpoint', 'first.safetensors', '--epochs', '40', '--lr', '0.01')
        frozen = self.train('--weights', 'first.safetensors', '--lr', '0', '--epochs', '1',
                            '--seed', '9')
        fresh = self.train('--lr', '0', '--epochs', '1', '--seed', '9')
        self.assertLess(frozen['test_loss'], fresh['test_loss'])
        self.assertAlmostEqual(frozen['test_loss'], first['test_loss'], delta=0.2)


class RunTest(program.CliTest):
    def setUp(self):
        super().setUp()
        self.train('--epochs', '10', '--checkpoint', 'weights')

    def test_report(self):
        report = json.loads(self.done('run', self.net, '--weights', 'weights', '--output', 'json'))
        self.assertEqual(report['rows'], 64)
        self.assertEqual(report['outputs']['prediction']['shape'], [4])
        rows = report['outputs']['prediction']['first_rows']
        self.assertEqual(len(rows), 10)
        for row in rows:
            self.assertAlmostEqual(sum(row), 1, places=5)
        self.assertIn('loss', report)
        quiet = self.done('run', self.net, '--weights', 'weights', '--output', 'quiet')
        self.assertEqual(float(quiet), report['accuracy'])

    def test_table(self):
        text = self.done('run', self.net, '--weights', 'weights')
        self.assertRegex(text, r'^row +prediction +argmax\n')
        self.assertIn('ran quadrant: 64 rows', text)
        self.assertRegex(text, r'accuracy +\d+\.\d\d %')

    def test_csv_output_agrees_with_the_accuracy(self):
        report = json.loads(self.done('run', self.net, '--weights', 'weights', '--output', 'json',
                                      '--out', 'prediction=csv:out.csv', '--batch-size', '7'))
        self.assertEqual(report['outputs']['prediction']['file'], 'out.csv')
        with open(self.folder / 'out.csv') as file:
            predictions = [[float(value) for value in row] for row in csv.reader(file)]
        with open(self.folder / 'points.csv') as file:
            labels = [int(row[4]) for row in csv.reader(file)]
        right = sum(row.index(max(row)) == label for row, label in zip(predictions, labels))
        self.assertEqual(len(predictions), 64)
        self.assertEqual(right / 64, report['accuracy'])

    def test_parts_do_not_matter(self):
        def outputs(parts):
            self.done('run', self.net, '--weights', 'weights', '--parts', parts, '--threads', '1',
                      '--out', f'prediction=csv:out{parts}.csv')
            return (self.folder / f'out{parts}.csv').read_text()
        self.assertEqual(outputs('1'), outputs('3'))

    def test_targets_are_optional(self):
        self.net = self.write('bare.harp', program.GRAPH)
        report = json.loads(self.done('run', self.net, '--weights', 'weights', '--output', 'json',
                                      '--bind', 'point=csv:points.csv?columns=0-3'))
        self.assertEqual(report['rows'], 64)
        self.assertNotIn('loss', report)
        self.assertNotIn('accuracy', report)

    def test_mistakes(self):
        run = ('run', self.net, '--weights')
        self.assert_fails(self.call(*run, 'nothing'), "'nothing'", 'No such file')
        self.assert_fails(self.call(*run, 'points.csv'), 'points.csv')
        self.assert_fails(self.call(*run, 'weights', '--out', 'answer=csv:o'), 'answer', 'prediction')
        self.assert_fails(self.call(*run, 'weights', '--out', 'prediction=o'), 'csv:PATH')
        self.assert_fails(self.call(*run, 'weights', '--parts', '6'), '5')
        bare = self.write('bare.harp', program.GRAPH)
        self.assert_fails(self.call('run', bare, '--weights', 'weights'), "'point'", '--bind point=')
        wider = self.write('wider.harp', self.net.read_text().replace('linear(8)', 'linear(9)'))
        self.assert_fails(self.call('run', wider, '--weights', 'weights'), 'narrow.')
        self.assertNotIn('o', self.names())

    def test_a_failed_run_leaves_the_old_output(self):
        old = self.write('out.csv', 'precious\n')
        self.write('points.csv', program.points(64) + '1,2,3\n')
        result = self.call('run', self.net, '--weights', 'weights', '--out', 'prediction=csv:out.csv',
                           '--batch-size', '4')
        self.assert_fails(result, 'points.csv')
        self.assertEqual(old.read_text(), 'precious\n')
        self.assertEqual([name for name in self.names() if name.startswith('out')], ['out.csv'])


if __name__ == '__main__':
    unittest.main()
