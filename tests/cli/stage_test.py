"""The settings of `harmonics stage`, and those of train and run that few runs need."""

import json
import os
import shutil
import subprocess
import unittest

import program


class StageTest(program.CliTest):
    def stages(self, *settings, each):
        """Runs one stage for each list of arguments in `each`; all must succeed. Their reports."""
        running = [self.start('stage', self.net, *settings, *own, '--output', 'json') for own in each]
        reports = []
        for stage in running:
            output, error = stage.communicate(timeout=program.TIMEOUT_S)
            self.assertEqual(stage.returncode, 0, error)
            reports.append(json.loads(output))
        return reports

    def digest(self, saved, *settings):
        """Of the weights that the stages saved."""
        report = self.train(*settings, '--checkpoint', saved, '--resume')
        self.assertTrue(report['was_complete'])
        return report['weights_digest']

    def test_every_setting_means_what_it_means_to_train(self):
        settings = ('--epochs', '2', '--micro-batches', '2', '--pipeline', 'gpipe', '--backend', 'cpu',
                    '--precision', 'full', '--optimizer', 'sgd', '--lr', '0.1', '--momentum', '0.9',
                    '--weight-decay', '0.01', '--decay', 'weights', '--beta1', '0.8', '--beta2', '0.9',
                    '--epsilon', '1e-6', '--warmup', '3', '--schedule', 'step', '--step-every', '5',
                    '--step-factor', '0.5', '--no-shuffle', '--seed', '7')
        expected = self.train(*settings)
        self.assertNotEqual(expected['weights_digest'], self.train('--epochs', '2')['weights_digest'])
        saved = self.folder / 'run'
        self.stages('--parts', '2', *settings, '--checkpoint', saved, '--meet',
                    f'tcp://127.0.0.1:{program.reserved_port()}', '--run', 'settings', '--deadline', '60',
                    each=(('--part', '0'), ('--part', '1')))
        self.assertEqual(self.digest(saved, *settings), expected['weights_digest'])

    def test_the_digest_says_that_it_is_of_its_part(self):
        meet = ('--parts', '2', '--epochs', '1', '--meet', f'tcp://127.0.0.1:{program.reserved_port()}')
        first = self.start('stage', self.net, *meet, '--part', '0')
        report, = self.stages(*meet, each=(('--part', '1'),))
        output, error = first.communicate(timeout=program.TIMEOUT_S)
        self.assertEqual(first.returncode, 0, error)
        self.assertEqual(report['weights_digest_part'], 1)
        self.assertRegex(output, r'(?m)^  weights +sha256 [0-9a-f]{64} \(of part 0 alone\)$')
        self.assertNotIn('weights_digest_part', self.train('--epochs', '1', '--parts', '2'))

    def boundaries(self, parts, part):
        """Names of a part's boundaries, in order, from what the program says of a wrong one."""
        wrong = self.call('stage', self.net, '--parts', parts, '--part', part, '--boundary',
                          'tcp://127.0.0.1:1/elsewhere')
        self.assert_fails(wrong, "has no boundary 'elsewhere'; it has: ")
        return wrong.stderr.split('it has: ')[1].strip().split(', ')

    def test_a_part_without_data_is_told_how_long_an_epoch_is(self):
        settings = ('--epochs', '2', '--schedule', 'cosine')
        bare = self.write('bare.harp', program.GRAPH + program.TRAIN)
        lonely = self.call('stage', bare, '--parts', '3', '--part', '1', *settings, '--meet',
                           f'tcp://127.0.0.1:{program.reserved_port()}')
        self.assert_fails(lonely, '--batches-per-epoch N')
        # Three processes of one machine cannot share a port: a place for each boundary.
        first, second = (('--boundary', f'tcp://127.0.0.1:{program.reserved_port()}/{name}')
                         for name in sorted(self.boundaries(3, 1), key=lambda name: name[-1]))
        saved = self.folder / 'run'
        self.stages('--parts', '3', *settings, '--checkpoint', saved, '--run', 'cosine',
                    each=(('--part', '0', *first),
                          ('--part', '1', *first, *second, '--batches-per-epoch', '6'),
                          ('--part', '2', *second)))
        self.assertEqual(self.digest(saved, *settings), self.train(*settings)['weights_digest'])

    def test_processes_that_share_a_place_are_told_at_once(self):
        # Of three parts, the middle one may be first to listen, for both boundaries; of four, nobody has all.
        place = f'tcp://127.0.0.1:{program.reserved_port()}'
        reader, writer = os.pipe()
        stages = [self.start('stage', self.net, '--parts', '4', '--part', str(part), '--meet', place,
                             '--first-contact', '100', stderr=writer) for part in range(4)]
        os.close(writer)
        # It ends when all stages have, which give up after their first contact.
        with os.fdopen(reader, errors='replace') as lines:
            told = next((line for line in lines if 'needs a place of its own' in line), '')
        for stage in stages:
            stage.kill()
            stage.communicate(timeout=program.TIMEOUT_S)
        self.assertRegex(told, r"boundary '\w+@[123]' \(tcp to 127.0.0.1:\d+\): another process listens there")

    def test_a_boundary_without_a_place_is_told_how_to_get_one(self):
        self.assert_fails(self.call('stage', self.net, '--parts', '2', '--part', '0'),
                          'has no meeting place: add --boundary tcp://HOST:PORT/', 'or --meet')

    def test_each_boundary_can_have_a_place_of_its_own(self):
        boundary, = self.boundaries(2, 0)
        place = f'tcp://127.0.0.1:{program.reserved_port()}/{boundary}'
        saved = self.folder / 'run'
        self.stages('--parts', '2', '--epochs', '1', '--boundary', place, '--checkpoint', saved,
                    each=(('--part', '0'), ('--part', '1')))
        self.assertEqual(self.digest(saved, '--epochs', '1'),
                         self.train('--epochs', '1')['weights_digest'])

    def test_a_plan_says_where_to_cut(self):
        plan = self.write('plan.yml', '- desk: [1, 2]\n- shelf: [3, 5]\n')
        saved = self.folder / 'run'
        reports = self.stages('--plan', plan, '--epochs', '2', '--checkpoint', saved, '--whole-digest',
                              '--meet', f'tcp://127.0.0.1:{program.reserved_port()}',
                              each=(('--part', '0'), ('--part', '1')))
        expected = self.train('--epochs', '2')['weights_digest']
        self.assertEqual([report['weights_digest'] for report in reports], [expected] * 2)

    def test_replicas_by_hand(self):
        expected = self.train('--epochs', '2', '--replicas', '2')
        places = [f'tcp://127.0.0.1:{program.reserved_port()}/replicas' for _ in range(2)]
        saved = self.folder / 'run'
        self.stages('--epochs', '2', '--replicas', '2', '--part', '0', '--checkpoint', saved,
                    '--replica-place', places[0], '--replica-place', places[1],
                    each=(('--replica', '0'), ('--replica', '1')))
        self.assertEqual(self.digest(saved, '--epochs', '2', '--replicas', '2'),
                         expected['weights_digest'])

    @unittest.skipIf(shutil.which('openssl') is None, 'the program openssl is not installed')
    def test_tls_between_stages(self):
        key, certificate = self.folder / 'key.pem', self.folder / 'certificate.pem'
        subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ed25519', '-nodes', '-days', '1', '-subj',
                        '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost', '-keyout', key,
                        '-out', certificate], check=True, capture_output=True,
                       timeout=program.TIMEOUT_S)
        tls = ('--tls-certificate', certificate, '--tls-key', key, '--tls-authority', certificate)
        saved = self.folder / 'run'
        self.stages('--parts', '2', '--epochs', '1', '--checkpoint', saved, '--meet',
                    f'tcp://localhost:{program.reserved_port()}', *tls, each=(('--part', '0'), ('--part', '1')))
        self.assertEqual(self.digest(saved, '--epochs', '1'),
                         self.train('--epochs', '1')['weights_digest'])
        missing = self.call('stage', self.net, '--parts', '2', '--part', '0', '--meet',
                            'tcp://localhost:1', '--tls-authority', self.folder / 'none.pem')
        self.assert_fails(missing, 'none.pem')


class RareSettingsTest(program.CliTest):
    def test_backend_and_precision(self):
        full = self.train('--backend', 'auto', '--precision', 'full')
        self.assertEqual(self.train('--backend', 'cpu')['weights_digest'], full['weights_digest'])
        half = self.train('--precision', 'bf16')
        self.assertNotEqual(half['weights_digest'], full['weights_digest'])
        self.assertLess(abs(half['train_loss'] - full['train_loss']), 0.1)
        refused = self.call('train', self.net, '--precision', 'fp16')
        self.assert_fails(refused, 'fp16 needs a GPU')

    def test_backend_of_run(self):
        saved = self.folder / 'weights.safetensors'
        self.train('--checkpoint', saved)
        outputs = [self.done('run', self.net, '--weights', saved, '--backend', backend, '--output', 'json')
                   for backend in ('cpu', 'auto')]
        reports = [json.loads(output) for output in outputs]
        self.assertEqual(reports[0]['loss'], reports[1]['loss'])


class TokenFileTest(program.CliTest):
    def stage_with(self, token):
        return self.call('stage', self.net, '--parts', '2', '--part', '0', '--meet', 'tcp://127.0.0.1:1',
                         '--token-file', token)

    def test_one_that_others_can_read_is_refused(self):
        result = self.stage_with(self.write_token(mode=0o644))
        self.assert_fails(result, 'is a secret that others may read (mode 644): chmod 600 it')

    def test_one_that_is_easily_guessed_is_refused(self):
        result = self.stage_with(self.write_token('swordfish\n'))
        self.assert_fails(result, 'the token is too easily guessed', 'openssl rand -hex 16')


if __name__ == '__main__':
    unittest.main()
