"""`harmonics run` over several parts, in one process and in several, and `harmonics stage --infer`: the rows of
one process, each once and in order, also when parts die or hang."""

import array
import json
import os
import pathlib
import random
import signal
import unittest
import unittest.mock

import program
from processes_test import children_of, is_alive

SEED = int(os.environ.get('HARMONICS_STREAM_SEED', '90210'))
ROUNDS = int(os.environ.get('HARMONICS_STREAM_ROUNDS', '300' if os.environ.get('HARMONICS_SOAK') else '2'))
ROWS = 203  # twenty-five batches of eight and one of three
MEASURED = ('seconds', 'starting_seconds', 'samples_per_second', 'stages', 'restarts')

PLAN = '- desk: [1, 2]\n- shelf: [3, 5]\n'


def read_tensor(path):
    """Name, shape and numbers of the only tensor of a safetensors file."""
    content = path.read_bytes()
    header = 8 + int.from_bytes(content[:8], 'little')
    (name, entry), = ((key, value) for key, value in json.loads(content[8:header]).items() if key != '__metadata__')
    begin, end = entry['data_offsets']
    assert entry['dtype'] == 'F32' and begin == 0 and header + end == len(content), entry
    return name, entry['shape'], array.array('f', content[header:])


def comparable(report):
    return {key: value for key, value in report.items() if key not in MEASURED}


class StreamCase(program.CliTest):
    made = None  # the weights, what one process says of the rows, and its file; the same for all tests

    def setUp(self):
        super().setUp()
        self.write('points.csv', program.points(ROWS))
        self.out = self.folder / 'rows.csv'
        if StreamCase.made is None:
            self.train('--epochs', '1', '--checkpoint', 'weights.safetensors')
            report = self.run_report()
            StreamCase.made = ((self.folder / 'weights.safetensors').read_bytes(), report, self.out.read_text())
            self.out.unlink()
        weights, self.expected, self.rows = StreamCase.made
        (self.folder / 'weights.safetensors').write_bytes(weights)
        self.assertEqual(self.rows.count('\n'), ROWS)

    def words(self, *more):
        return ('run', self.net, '--weights', 'weights.safetensors', '--out', 'prediction=csv:rows.csv',
                '--output', 'json', *more)

    def run_report(self, *more):
        return json.loads(self.done(*self.words(*more)))

    def expect_rows(self, report):
        """What one process says and writes."""
        self.assertEqual(comparable(report), comparable(self.expected))
        self.assertEqual(self.out.read_text(), self.rows)
        self.out.unlink()

    def transports(self):
        parts = json.loads(self.done('doctor', '--output', 'json'))['parts']
        built = {part['name'] for part in parts if part['built']}
        return ['shm', 'tcp'] + [name for name in ('grpc', 'flight') if name in built]


class StreamTest(StreamCase):
    def check_stages(self, report, count):
        stages = report['stages']
        self.assertEqual(len(stages), count)
        for stage in stages:
            self.assertEqual(stage['batches'], 26, stage)
            self.assertGreater(stage['busy_s'], 0)
            self.assertGreater(stage['period_s'], 0)
        self.assertEqual([stage['bytes_sent'] > 0 for stage in stages], [True] * (count - 1) + [False])

    def test_threads_and_processes_give_the_rows_of_one(self):
        report = self.run_report('--parts', '3', '--in-flight', '7')
        self.check_stages(report, 3)
        self.expect_rows(report)
        report = self.run_report('--deploy', 'cpu,cpu')
        self.check_stages(report, 2)
        self.expect_rows(report)
        for name in self.transports():
            with self.subTest(name):
                more = ('--compress', '--in-flight', '1') if name == 'tcp' else ()
                report = self.run_report('--parts', '2', '--processes', '--transport', name, *more)
                self.check_stages(report, 2)
                self.assertEqual(report['restarts'], 0)
                self.expect_rows(report)

    def test_a_plan_runs_and_is_compared_with_what_was_measured(self):
        self.write('plan.yml', PLAN)
        stages = [{'hosts': ['desk'], 'layers': [1, 2], 'period_s': 0.25},
                  {'hosts': ['shelf', 'cellar'], 'layers': [3, 5], 'period_s': 0.5}]
        self.write('plan.json', json.dumps({'model': 'quadrant', 'batch_size': 8, 'stages': stages}))
        report = self.run_report('--plan', 'plan.yml')
        self.assertEqual([stage['planned_period_s'] for stage in report['stages']], [None, None])
        self.expect_rows(report)
        report = self.run_report('--plan', 'plan.json', '--processes', '--trace', 'trace')
        # Two hosts take turns: each is planned to take a batch at every other period.
        self.assertEqual([stage['planned_period_s'] for stage in report['stages']], [0.25, 1.0, 1.0])
        self.assertEqual([stage['batches'] for stage in report['stages']], [26, 13, 13])
        self.assertEqual([stage.get('host') for stage in report['stages']], [None, 'shelf', 'cellar'])
        self.expect_rows(report)
        traced = json.loads(self.done('trace', 'trace', '--output', 'json'))
        self.assertEqual([(stage['stage'], stage['forward'], stage['backward']) for stage in traced['stages']],
                         [('passes-0', 26, 0), ('passes-1-0', 13, 0), ('passes-1-1', 13, 0)])
        result = self.call('run', self.net, '--weights', 'weights.safetensors', '--plan', 'plan.json')
        self.assertIn('part 1 is planned for 2 hosts that take turns (shelf, cellar)', result.stderr)
        table = result.stdout
        self.assertRegex(table, r'(?m)^part +planned ms +period ms +busy ms +busy +for input +for room +sent MB')
        self.assertRegex(table, r'(?m)^quadrant_0 +250\.00 +\d')
        self.assertRegex(table, r'(?m)^ran quadrant: 203 rows')

    def test_threads_leave_the_trace_that_processes_leave(self):
        self.expect_rows(self.run_report('--parts', '2', '--trace', 'trace'))
        traced = json.loads(self.done('trace', 'trace', '--output', 'json'))
        self.assertEqual([(stage['stage'], stage['forward'], stage['backward']) for stage in traced['stages']],
                         [('passes-0', 26, 0), ('passes-1', 26, 0)])
        self.expect_rows(self.run_report('--trace', 'whole'))
        self.assertEqual((self.folder / 'whole/passes-0.jsonl').read_text().count('\n'), 26)

    def test_rows_as_one_tensor(self):
        floats = [float(value) for row in self.rows.splitlines() for value in row.split(',')]
        for spec, words in [('rows.safetensors', ()), ('rows.safetensors', ('--parts', '2', '--processes')),
                            ('safetensors:rows.tensor', ('--parts', '3'))]:
            with self.subTest(spec=spec, words=words):
                out = self.folder / spec.removeprefix('safetensors:')
                report = json.loads(self.done('run', self.net, '--weights', 'weights.safetensors', '--out',
                                              f'prediction={spec}', '--output', 'json', *words))
                self.assertEqual(report['outputs']['prediction']['file'], out.name)
                name, shape, values = read_tensor(out)
                self.assertEqual((name, shape), ('prediction', [ROWS, len(floats) // ROWS]))
                self.assertEqual(values, array.array('f', floats))
                out.unlink()

    def test_a_graph_without_parameters_needs_no_weights(self):
        net = self.write('plain.harp', """harmonic negated {
            producer point {4};
            layer turned function(of=neg);
            layer kept identity;
            consumer out {4};
            cycle { point -> turned -> kept -> out; }
          }
          data { point = "csv:points.csv?columns=0-3"; }""")
        columns = [line.split(',')[:4] for line in (self.folder / 'points.csv').read_text().splitlines()]
        for words in [(), ('--parts', '2', '--processes')]:
            report = json.loads(self.done('run', net, '--out', 'out=csv:rows.csv', '--output', 'json', *words))
            self.assertEqual(report['rows'], ROWS)
            self.assertEqual([array.array('f', map(float, line.split(','))) for line in self.out.read_text().split()],
                             [array.array('f', (-float(value) for value in row)) for row in columns])
        self.assert_fails(self.call('run', self.net), 'names no weights: give --weights FILE')

    def finish(self, stage):
        output, error = stage.communicate(timeout=program.TIMEOUT_S)
        self.assertEqual(stage.returncode, 0, error)
        return json.loads(output)

    def test_a_plan_and_a_file_of_addresses_are_enough(self):
        self.write('plan.yml', PLAN)
        self.write('hosts.yml', f'shelf: 127.0.0.1:{program.reserved_port()}\n')
        started = [self.start('stage', self.net, '--infer', '--weights', 'weights.safetensors', '--plan', 'plan.yml',
                              '--hosts', 'hosts.yml', '--output', 'json', *own)
                   for own in (('--part', '0'), ('--part', '1', '--out', 'prediction=csv:rows.csv'))]
        first = self.finish(started[0])
        self.assertEqual((first['rows'], first['outputs']), (ROWS, {}))
        self.expect_rows({**self.finish(started[1]), 'graph': 'quadrant'})

    def test_a_stage_goes_on_from_the_batch_that_is_due(self):
        alone = ('stage', self.net, '--infer', '--weights', 'weights.safetensors', '--part', '0', '--output', 'json')
        report = json.loads(self.done(*alone, '--delivered', '25', '--out', 'prediction=csv:rows.csv'))
        self.assertEqual(report['rows'], 3)
        self.assertEqual(self.out.read_text().splitlines(), self.rows.splitlines()[-3:])
        self.assert_fails(self.call(*alone, '--results', 'nowhere'), 'nowhere')

    def test_a_stage_keeps_rows_as_they_come_and_goes_on_behind_them(self):
        words = ('stage', self.net, '--infer', '--weights', 'weights.safetensors', '--part', '0', '--parts', '1',
                 '--output', 'json', '--out', 'prediction=csv:rows.csv', '--kept', 'kept')
        self.assertEqual(json.loads(self.done(*words))['rows'], ROWS)
        rows, marks = (self.folder / 'kept' / f'prediction.{kind}' for kind in ('rows', 'marks'))
        self.assertEqual(rows.read_text(), self.rows)
        self.assertEqual(len(marks.read_text().splitlines()), 26)
        # As if it had been killed: what is kept is believed, and what is behind it is computed.
        self.assertEqual(self.out.read_text(), self.rows)
        self.out.unlink()
        marks.write_text(''.join(marks.read_text().splitlines(keepends=True)[:10]) + 'torn')
        rows.write_text(self.rows[:-20])
        report = json.loads(self.done(*words, '--delivered', '10'))
        self.assertEqual(report['rows'], ROWS - 80)
        self.assertNotIn('accuracy', report)
        self.assertEqual(self.out.read_text(), self.rows)
        rows.write_text('x' + self.rows[1:])
        wrong = self.call(*words, '--delivered', '10')
        self.assertEqual(wrong.returncode, 1)
        self.assertIn('holds 0 whole batches, not the 10', wrong.stderr)

    def test_a_stage_waits_for_one_that_comes_back(self):
        slow = ('--restarts', '50')
        writer = ('--part', '1', '--out', 'prediction=csv:rows.csv')
        with unittest.mock.patch.dict(os.environ, HARMONICS_SLOWDOWN='40',
                                      HARMONICS_PASS_TRACE=str(self.folder / 'passes')):
            port = program.reserved_port()
            start = lambda *own: self.start('stage', self.net, '--infer', '--weights', 'weights.safetensors',
                                            '--meet', f'tcp://127.0.0.1:{port}', '--parts', '2', '--output',
                                            'json', *slow, *own)
            kept = start(*writer)
            lost = start('--part', '0')
            wait_for_lines(self.folder / 'passes', 8, kept)
            lost.kill()
            lost.communicate(timeout=program.TIMEOUT_S)
            back = start('--part', '0')
        self.finish(back)
        report = self.finish(kept)
        self.assertEqual(report['restarts'] >= 1, True)
        self.expect_rows({**report, 'graph': 'quadrant'})


def wait_for_lines(path, count, process):
    """Until that many passes were traced: of all parts that share the file."""
    deadline = program.TIMEOUT_S * 100
    for _ in range(deadline):
        try:
            if path.read_text().count('\n') >= count:
                return
        except FileNotFoundError:
            pass
        try:
            process.wait(timeout=0.01)
        except Exception:
            continue
        raise AssertionError('it ended before')
    raise AssertionError('nothing came')


COPIES = ['- a: [1, 2]\n- b: [3, 5]\n- c: [3, 5]\n',
          '- a: [1, 2, 2]\n- b: [1, 2, 1]\n- c: [3, 5]\n',
          '- a: [1, 2]\n- b: [3, 4, 1]\n- c: [3, 4, 3]\n- d: [5, 5]\n',
          '- a: [1, 1]\n- b: [1, 1]\n- c: [2, 4, 2]\n- d: [2, 4, 1]\n- e: [5, 5]\n- f: [5, 5]\n',
          '- a: [1, 5]\n- b: [1, 5]\n- c: [1, 5]\n']


class CopiesTest(StreamCase):
    """Stages that several hosts take turns at: a process for each, the rows of one."""

    def test_every_shape_gives_the_rows_of_one_process(self):
        for number, plan in enumerate(COPIES[1:]):
            with self.subTest(plan=plan):
                self.write('plan.yml', plan)
                report = self.run_report('--plan', 'plan.yml', '--processes', '--transport', ('shm', 'tcp')[number % 2])
                self.assertEqual(len(report['stages']), plan.count('\n'))
                self.expect_rows(report)

    def test_turns_are_shared_out_by_weight(self):
        self.write('plan.yml', COPIES[2])
        stages = self.run_report('--plan', 'plan.yml', '--processes')['stages']
        self.assertEqual([(stage['part'], stage.get('copy'), stage.get('host'), stage['batches']) for stage in stages],
                         [('quadrant_0', None, None, 26), ('quadrant_1', 0, 'b', 7), ('quadrant_1', 1, 'c', 19),
                          ('quadrant_2', None, None, 26)])
        table = self.done('run', self.net, '--weights', 'weights.safetensors', '--plan', 'plan.yml', '--processes')
        self.assertRegex(table, r'(?m)^quadrant_1 \(c\) +- +\d')

    def test_machines_meet_by_plan_and_addresses(self):
        self.write('plan.yml', COPIES[2])
        self.write('hosts.yml', ''.join(f'{host}: 127.0.0.1:{program.reserved_port()}\n' for host in 'bcd'))
        started = [self.start('stage', self.net, '--infer', '--weights', 'weights.safetensors', '--plan', 'plan.yml',
                              '--hosts', 'hosts.yml', '--output', 'json', *own)
                   for own in (('--part', '0'), ('--part', '1', '--copy', '0'), ('--part', '1', '--copy', '1'),
                               ('--part', '2', '--out', 'prediction=csv:rows.csv'))]
        reports = []
        for stage in started:
            output, error = stage.communicate(timeout=program.TIMEOUT_S)
            self.assertEqual(stage.returncode, 0, error)
            reports.append(json.loads(output))
        self.assertEqual([report['stages'][0]['batches'] for report in reports], [26, 7, 19, 26])
        self.expect_rows({**reports[3], 'graph': 'quadrant'})

    def test_a_copy_that_dies_or_hangs_is_replaced(self):
        trace = self.folder / 'trace'
        for number in range(ROUNDS):
            chance = random.Random(f'{SEED}/copies/{number}')
            plan = chance.choice(COPIES)
            hangs = number % 8 == 1
            self.write('plan.yml', plan)
            for old in trace.glob('*'):
                old.unlink()
            with self.subTest(seed=SEED, round=number, plan=plan, hangs=hangs):
                with unittest.mock.patch.dict(os.environ, HARMONICS_SLOWDOWN='20'):
                    process = self.start(*self.words('--processes', '--plan', 'plan.yml', '--trace', trace,
                                                     '--transport', chance.choice(self.transports()),
                                                     *(('--deadline', '2') if hangs else ())))
                copied = 'passes-0.jsonl' if plan.startswith('- a: [1, 2]\n') else 'passes-0-0.jsonl'
                wait_for_lines(trace / copied, chance.randint(1, 6), process)
                children = children_of(process)
                os.kill(chance.choice(children), signal.SIGSTOP if hangs else signal.SIGKILL)
                output, error = process.communicate(timeout=program.TIMEOUT_S)
                self.assertEqual(process.returncode, 0, error)
                report = json.loads(output)
                self.assertEqual(report['restarts'], 1, error)
                self.assertFalse(any(map(is_alive, children)))
                self.expect_rows(report)

    def test_what_cannot_be_is_one_line(self):
        infer = ('stage', self.net, '--infer', '--weights', 'weights.safetensors', '--plan', 'plan.yml')
        self.write('plan.yml', COPIES[0])
        self.assert_fails(self.call(*infer, '--part', '1', '--meet', 'tcp://127.0.0.1:1'),
                          'part 1 is planned for 2 hosts that take turns (b, c)', '--copy 0 to 1')
        self.assert_fails(self.call(*infer, '--part', '1', '--copy', '2', '--meet', 'tcp://127.0.0.1:1'),
                          '--copy 2: part 1 has copies 0 to 1')
        self.assert_fails(self.call(*infer, '--part', '0', '--copy', '1', '--meet', 'tcp://127.0.0.1:1'),
                          '--copy 1: part 0 has one copy')
        self.assert_fails(self.call(*infer, '--part', '1', '--copy', '1', '--meet', 'tcp://127.0.0.1:1', '--out',
                                    'prediction=csv:rows.csv'), 'come out of 2 hosts in turn', 'one host')
        self.assert_fails(self.call(*infer, '--part', '1', '--copy', '1', '--meet', 'tcp://127.0.0.1:1', '--secure'),
                          'parts with copies cannot be secure')
        self.assert_fails(self.call(*self.words('--plan', 'plan.yml', '--processes', '--secure')),
                          '--processes --secure does not work with stages that several hosts take turns at', 'b, c')
        self.assert_fails(self.call('run', self.net, '--weights', 'weights.safetensors', '--plan', 'plan.yml',
                                    '--processes', '--listen', '127.0.0.1:0'),
                          '--listen --processes does not work with stages that several hosts take turns at')
        self.write('hosts.yml', 'a: 127.0.0.1:9000\nb: 127.0.0.1:9001\n')
        self.assert_fails(self.call(*infer, '--part', '0', '--hosts', 'hosts.yml'),
                          "'hosts.yml' has no address for host 'c' of the plan")
        result = self.call('stage', self.net, '--part', '0', '--parts', '2', '--copy', '1')
        self.assertEqual(result.returncode, 2, result.stderr)  # without --plan
        self.write('plan.yml', '- a: [1, 5, 1001]\n- b: [1, 5]\n')
        self.assert_fails(self.call(*self.words('--plan', 'plan.yml', '--processes')), 'at most 1000 turns')


class SurvivalTest(StreamCase):
    """Parts are killed and stopped at any moment while rows stream."""

    def strike(self, chance, number, words):
        trace = self.folder / 'trace'
        for old in trace.glob('*'):
            old.unlink()
        transport = chance.choice(self.all_transports)
        with unittest.mock.patch.dict(os.environ, HARMONICS_SLOWDOWN='20'):
            process = self.start(*self.words('--processes', '--parts', chance.choice(['2', '3']), '--transport',
                                             transport, '--trace', trace, '--in-flight',
                                             chance.choice(['0', '2', '9']), *words))
        wait_for_lines(trace / 'passes-0.jsonl', chance.randint(1, 20), process)
        children = children_of(process)
        os.kill(chance.choice(children), number)
        output, error = process.communicate(timeout=program.TIMEOUT_S)
        self.assertFalse(any(map(is_alive, children)))
        return process.returncode, output, error

    def test_kills_while_rows_stream(self):
        self.all_transports = self.transports()
        for number in range(ROUNDS):
            chance = random.Random(f'{SEED}/{number}')
            hangs = number % 8 == 1
            with self.subTest(seed=SEED, round=number, hangs=hangs):
                if hangs:
                    code, output, error = self.strike(chance, signal.SIGSTOP, ('--deadline', '2'))
                else:
                    code, output, error = self.strike(chance, signal.SIGKILL, ())
                self.assertEqual(code, 0, error)
                report = json.loads(output)
                self.assertEqual(report['restarts'], 1, error)
                self.assertRegex(error, 'all parts start again from batch [0-9]+ .restart 1 of 3')
                self.expect_rows(report)

    def test_without_restarts_the_run_ends_and_says_why(self):
        self.all_transports = ['shm']
        code, output, error = self.strike(random.Random(SEED), signal.SIGKILL, ('--restarts', '0'))
        self.assertEqual((code, output), (1, ''), error)
        self.assertRegex(error, r'(?m)^harmonics: part \d of \d was killed by signal 9 \(Killed\)')
        self.assertIn('no output was written', error)
        self.assertFalse(self.out.exists())

    def test_a_signal_ends_all_parts_and_writes_nothing(self):
        for words in [('--parts', '2'), ('--parts', '2', '--processes')]:
            with unittest.mock.patch.dict(os.environ, HARMONICS_SLOWDOWN='100',
                                          HARMONICS_PASS_TRACE=str(self.folder / 'passes')):
                process = self.start(*self.words(*words))
            wait_for_lines(self.folder / 'passes', 3, process)
            children = children_of(process)
            process.send_signal(signal.SIGINT)
            _, error = process.communicate(timeout=program.TIMEOUT_S)
            self.assertEqual(process.returncode, 130, error)
            self.assertIn('no output was written', error)
            self.assertFalse(self.out.exists())
            self.assertFalse(any(map(is_alive, children)))
            (self.folder / 'passes').unlink()


    def test_a_stage_that_is_asked_to_end_ends_the_others(self):
        port = program.reserved_port()
        trace = self.folder / 'passes'
        with unittest.mock.patch.dict(os.environ, HARMONICS_SLOWDOWN='100', HARMONICS_PASS_TRACE=str(trace)):
            first, last = (self.start('stage', self.net, '--infer', '--weights', 'weights.safetensors', '--parts', '2',
                                      '--meet', f'tcp://127.0.0.1:{port}', '--part', part) for part in '01')
        wait_for_lines(trace, 4, first)
        first.send_signal(signal.SIGTERM)
        errors = [stage.communicate(timeout=program.TIMEOUT_S)[1] for stage in (first, last)]
        self.assertEqual([first.returncode, last.returncode], [143, 1], errors)
        self.assertIn('another part was asked to end', errors[1])


class SecureStreamTest(StreamCase):
    """Boundaries between processes are signed and checked, and one chain tells of all rows."""

    def secure(self, chain='run.chain'):
        return ('--secure', '--proof', chain, '--keys', self.folder / 'keys')

    def verified(self, chain='run.chain'):
        return json.loads(self.done('verify', chain, '--keys', self.folder / 'keys', '--output', 'json'))

    def secure_rows(self, report):
        proof, chain = report.pop('proof'), report.pop('chain')
        self.expect_rows(report)
        self.assertEqual([file for file in self.names() if '.part' in file and 'aside' not in file], [])
        return proof, chain

    def test_every_transport_gives_one_chain_of_all_parts(self):
        for name in self.transports():
            with self.subTest(name):
                chain = f'{name}.chain'
                report = self.run_report('--parts', '2', '--processes', '--transport', name, *self.secure(chain))
                proof, written = self.secure_rows(report)
                self.assertEqual((len(proof.splitlines()), written), (2, chain))
                found = self.verified(chain)
                self.assertTrue(found['signers_known'])
                self.assertEqual([boundary['activations'] for boundary in found['boundaries']], [26, 26])
                self.done('verify', chain, '--keys', self.folder / 'keys', '--line', proof)
        again = self.call(*self.words('--parts', '2', '--processes', *self.secure('shm.chain')))
        self.assert_fails(again, 'a chain is not overwritten; name another file')
        content = bytearray((self.folder / 'tcp.chain').read_bytes())
        content[len(content) // 2] ^= 1
        (self.folder / 'bad.chain').write_bytes(content)
        self.assert_fails(self.call('verify', 'bad.chain', '--keys', self.folder / 'keys'), 'custody')

    def test_after_a_kill_the_chain_still_tells_of_all_rows(self):
        trace = self.folder / 'trace'
        with unittest.mock.patch.dict(os.environ, HARMONICS_SLOWDOWN='20'):
            process = self.start(*self.words('--processes', '--parts', '2', '--trace', trace, *self.secure()))
        wait_for_lines(trace / 'passes-1.jsonl', 8, process)
        os.kill(children_of(process)[0], signal.SIGKILL)
        output, error = process.communicate(timeout=program.TIMEOUT_S)
        self.assertEqual(process.returncode, 0, error)
        self.assertIn('all parts start again from batch 0', error)
        report = json.loads(output)
        self.assertEqual(report['restarts'], 1)
        self.secure_rows(report)
        self.assertEqual([boundary['activations'] for boundary in self.verified()['boundaries']], [26, 26])

    def test_a_key_that_is_not_the_signers_stops_the_run(self):
        self.done('keys', 'new', 'alice', '--keys', self.folder / 'keys')
        (self.folder / 'keys/alice.pub').unlink()
        result = self.call(*self.words('--processes', '--parts', '2', *self.secure()))
        self.assert_fails(result, 'alice')
        self.assertFalse(self.out.exists())


class RefusalTest(StreamCase):
    def refuses(self, words, *texts, code=1):
        result = self.call(*self.words(*words))
        self.assert_fails(result, *texts, code=code)
        self.assertFalse(self.out.exists())

    def test_plans_that_do_not_fit(self):
        stages = [{'hosts': ['desk'], 'layers': [1, 5], 'period_s': 0.25}]
        self.write('short.yml', '- desk: [1, 2]\n- shelf: [3, 4]\n')
        self.write('long.yml', '- desk: [1, 2]\n- shelf: [3, 9]\n')
        self.write('gap.yml', '- desk: [1, 2]\n- shelf: [4, 5]\n')
        self.write('other.json', json.dumps({'model': 'lenet', 'batch_size': 8, 'stages': stages}))
        self.write('batch.json', json.dumps({'model': 'quadrant', 'batch_size': 4, 'stages': stages}))
        self.write('none.json', '{"model": "quadrant"}')
        self.refuses(('--plan', 'short.yml', '--processes'), "'short.yml': the plan places 4 layers", 'has 5')
        self.refuses(('--plan', 'long.yml'), "'long.yml': the plan's stage [3, 9] does not fit", 'there are 5')
        self.refuses(('--plan', 'gap.yml'), 'gap.yml:2', 'does not follow on')
        self.refuses(('--plan', 'other.json'), "a plan for model 'lenet'", "holds 'quadrant'")
        self.refuses(('--plan', 'batch.json', '--batch-size', '8'), 'a plan for batches of 4', '--batch-size says 8')
        self.refuses(('--plan', 'none.json'), 'none.json is no report of a plan', 'batch_size')
        self.refuses(('--plan', 'nowhere.yml'), 'nowhere.yml')
        # Without the flag the plan says how large batches are.
        self.assertEqual(self.run_report('--plan', 'batch.json')['stages'][0]['batches'], 51)
        self.out.unlink()

    def test_flags_that_contradict_each_other(self):
        self.write('plan.yml', PLAN)
        for words, text in [(('--plan', 'plan.yml', '--parts', '2'), 'leave out --parts'),
                            (('--deploy', 'cpu,cpu', '--processes'), 'leave out'),
                            (('--transport', 'tcp'), 'add --processes'),
                            (('--restarts', '2'), 'add --processes'),
                            (('--processes', '--transport', 'bus'), 'a bus connects parts of one process'),
                            (('--in-flight', '5000'), '4096')]:
            result = self.call(*self.words(*words))
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(text, result.stderr)
        stage = ('stage', self.net, '--part', '0', '--parts', '2', '--meet', 'tcp://127.0.0.1:1')
        for words, text in [(('--infer', '--epochs', '2'), 'is for training'),
                            (('--infer', '--checkpoint', 'x'), 'is for training'),
                            (('--out', 'prediction=csv:x'), 'needs --infer')]:
            result = self.call(*stage, *words)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(text, result.stderr)

    def test_data_and_places_that_do_not_fit(self):
        self.write('few.csv', program.points(ROWS - 1))
        for spec, text in [('rows.txt', 'is not of the form csv:PATH, safetensors:PATH or PATH.safetensors'),
                           ('csv:', 'is not of the form'), ('safetensors:', 'is not of the form')]:
            self.assert_fails(self.call('run', self.net, '--weights', 'weights.safetensors', '--out',
                                        f'prediction={spec}'), text)
        self.refuses(('--bind', 'label=csv:few.csv?columns=4', '--parts', '2', '--processes'),
                     "the data of 'label' has 202 rows, that of 'point' has 203")
        self.refuses(('--bind', 'point=csv:few.csv?columns=0-2'), "producer 'point' is declared as")
        infer = ('stage', self.net, '--infer', '--weights', 'weights.safetensors', '--parts', '2', '--part', '0')
        self.assert_fails(self.call(*infer), 'has no meeting place')
        self.write('plan.yml', PLAN)
        self.write('hosts.yml', 'desk: 127.0.0.1:9000\n')
        self.assert_fails(self.call(*infer[:5], '--plan', 'plan.yml', '--hosts', 'hosts.yml', '--part', '0'),
                          "'hosts.yml' has no address for host 'shelf' of the plan")
        self.assert_fails(self.call(*infer, '--meet', 'tcp://192.0.2.1:9000?listen=1'),
                          'is within reach of other machines', '--token-file')
        self.assert_fails(self.call(*infer[:-1], '7', '--meet', 'tcp://127.0.0.1:1'), 'with 2 parts they are 0 to 1')

    def test_parts_that_work_on_unequal_data_say_so(self):
        self.write('few.csv', program.points(ROWS - 3 - 16))  # whole batches
        port = program.reserved_port()
        started = [self.start('stage', self.net, '--infer', '--weights', 'weights.safetensors', '--meet',
                              f'tcp://127.0.0.1:{port}', '--parts', '2', '--part', part, '--restarts', '0', *own)
                   for part, own in (('0', ()), ('1', ('--bind', 'label=csv:few.csv?columns=4')))]
        errors = [stage.communicate(timeout=program.TIMEOUT_S)[1] for stage in started]
        self.assertEqual([stage.returncode for stage in started], [1, 1], errors)
        self.assertIn('must be equally long', errors[1])


if __name__ == '__main__':
    unittest.main()
