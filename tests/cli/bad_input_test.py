"""Bad input: a clear message, exit code 1, and nothing half-written."""

import os
import resource
import shutil
import subprocess
import unittest

import program


def can_mount():
    """Whether this user may mount a file system in a namespace of its own."""
    if shutil.which('unshare') is None:
        return False
    return subprocess.run(['unshare', '-rm', 'mount', '-t', 'tmpfs', 'none', '/mnt'],
                          capture_output=True).returncode == 0


class BadInputTest(program.CliTest):
    def assert_refused(self, *texts, flags=(), net=None):
        """Training fails with `texts`, and leaves nothing behind that was not there before."""
        before = self.names()
        result = self.call('train', net or self.net, *flags)
        self.assert_fails(result, *texts)
        self.assertNotIn('terminate called', result.stderr)
        self.assertEqual(self.names(), before)
        return result.stderr

    def change(self, old, new):
        self.assertIn(old, self.net.read_text())
        self.net.write_text(self.net.read_text().replace(old, new))

    def line_of(self, text):
        return self.net.read_text()[:self.net.read_text().index(text)].count('\n') + 1

    def test_missing_file(self):
        self.assert_refused('nothing.harp', 'No such file', net='nothing.harp')

    def test_ids_and_tokens_outside_their_table(self):
        net = self.write('words.harp', """harmonic words {
  producer ids {3} int64; producer next {3} int64; consumer out;
  layer words embedding(rows=10, width=4); layer head linear(8);
  cycle { ids -> words -> head -> out; head <-(next_token)- next; }
}
data { ids = "csv:ids.csv?header=no"; next = "csv:next.csv?header=no"; }
""")
        self.write('ids.csv', '1,2,3\n4,10,6\n')
        self.write('next.csv', '1,2,3\n4,5,6\n')
        self.assert_refused("ids.csv' line 2, column 1: the id 10 is none of the 10 rows of 'words' (0 to 9)", net=net)
        wrong = (self.folder / 'ids.csv').read_text()
        self.write('ids.csv', '1,2,3\n4,9,6\n')
        self.write('next.csv', '1,2,-7\n4,8,6\n')
        self.assert_refused("next.csv' line 2, column 1: the label 8 is none of the 8 classes of 'head'", net=net)
        self.write('next.csv', '1,2,-7\n4,7,6\n')
        self.done('train', net, '--epochs', '1', '--checkpoint', 'words.safetensors')
        self.write('ids.csv', wrong)
        self.assert_fails(self.call('run', net, '--weights', 'words.safetensors', '--out', 'out=csv:out.csv'),
                          "ids.csv' line 2", 'the id 10')
        self.assertFalse((self.folder / 'out.csv').exists())

    def test_unknown_layer(self):
        self.change('batch_norm', 'batch_morn')
        self.assert_refused(f"net.harp:{self.line_of('batch_morn')}:", 'batch_morn')

    def test_wrong_shape(self):
        self.change('consumer prediction {4}', 'consumer prediction {7}')
        self.assert_refused('prediction', '{4}', '{7}')

    def test_data_of_another_shape(self):
        self.change('columns=0-3', 'columns=0-2')
        self.assert_refused("'point'", '{4}', '{3}')

    def test_data_of_another_dtype(self):
        self.change('columns=0-3', 'columns=4&dtype=int64')
        self.change('point {4}', 'point {1}')
        self.assert_refused("'point'", 'float32', 'int64')

    def test_unknown_setting(self):
        self.change('batch_size = 8;', 'batchsize = 8;')
        self.assert_refused(f"net.harp:{self.line_of('batchsize')}:", "'batchsize'", 'batch_size')
        self.change('batchsize = 8;', 'test_split = 0.5;')  # belongs into the data section
        self.assert_refused("'test_split'", 'the train section has no setting')

    def test_wrong_setting(self):
        self.change('epochs = 3;', 'epochs = many;')
        self.assert_refused(f"net.harp:{self.line_of('many')}:", 'epochs', "'many'", 'whole number')

    def test_unknown_producer(self):
        self.change('  point = "csv', '  pint = "csv')
        self.assert_refused(f"net.harp:{self.line_of('pint')}:", "'pint'", 'point, label')
        self.change('  pint = "csv', '  point = "csv')
        self.assert_refused('--bind pint', 'point, label', flags=('--bind', 'pint=csv:points.csv'))

    def test_missing_binding(self):
        self.change('  label = "csv:points.csv?columns=4";\n', '')
        self.assert_refused("'label'", '--bind label=')

    def test_unknown_scheme(self):
        self.change('point = "csv:', 'point = "tsv:')
        self.assert_refused(f"net.harp:{self.line_of('tsv:')}:", 'tsv', 'csv')

    def test_missing_data(self):
        self.change('csv:points.csv?columns=0-3', 'csv:nothing.csv?columns=0-3')
        self.assert_refused(f"net.harp:{self.line_of('nothing.csv')}:", 'nothing.csv', 'No such file')

    def test_empty_data(self):
        self.write('points.csv', '')
        self.assert_refused('points.csv', 'empty')

    def test_ragged_rows(self):
        self.write('points.csv', program.points(30) + '1,2,3\n' + program.points(30))
        self.assert_refused('points.csv', 'line 31')

    def test_text_among_numbers(self):
        self.write('points.csv', program.points(30) + '1,2,three,4,0\n' + program.points(30))
        self.assert_refused('points.csv', 'line 31', 'column 2', 'three')

    def test_data_of_unequal_length(self):
        self.write('more.csv', program.points(65))
        self.assert_refused("'label'", "'point'", flags=('--bind', 'label=csv:more.csv?columns=4'))

    def test_label_out_of_range(self):
        self.write('points.csv', program.points(30) + '1,2,3,4,9\n')
        error = self.assert_refused("points.csv' line 31, column 4", 'label 9', '4 classes')
        self.assertNotIn('.cpp', error)
        self.assert_refused("points.csv' line 31, column 4", flags=('--parts', '2', '--processes'))

    def test_data_that_is_no_number(self):
        rows = program.points(40).splitlines()
        for line in (1, 33):  # one row that is held back and one that is not
            changed = list(rows)
            changed[line] = 'nan' + changed[line][changed[line].index(','):]
            self.write('points.csv', '\n'.join(changed) + '\n')
            self.assert_refused(f"points.csv' line {line + 1}, column 0", 'nan=allow')
        net = self.write('lenient.harp', self.net.read_text().replace('columns=0-3', 'columns=0-3&nan=allow')
                         .replace('test_split = 0.25', 'test_split = 0.5'))
        ends = set()
        for line in range(4):
            changed = rows[:4]
            changed[line] = 'nan' + changed[line][changed[line].index(','):]
            self.write('points.csv', '\n'.join(changed) + '\n')
            result = self.call('train', net, '--epochs', '1')
            ends.add(result.returncode)
            if result.returncode == 0:
                self.assertIn('test        loss nan  ', result.stdout)
            self.assertIn('the loss is not finite' if result.returncode else 'the test loss is not finite',
                          result.stderr)
        self.assertEqual(ends, {0, 1})  # two rows are held back

    def test_a_pipe_in_place_of_data(self):
        (self.folder / 'points.csv').unlink()
        os.mkfifo(self.folder / 'points.csv')
        self.assert_refused('points.csv', 'not a regular file')

    def test_nothing_to_learn(self):
        self.change('    output <-(cross_entropy)- label;\n', '')
        self.assert_refused('nothing to learn')

    def test_loss_that_is_not_finite(self):
        error = self.assert_refused('step', flags=('--lr', '1e30', '--optimizer', 'sgd'))
        self.assertRegex(error, r'step \d+')
        self.assertRegex(error, r"'(wide|norm|drop|narrow|output)'")

    def test_loss_that_is_not_finite_keeps_the_last_checkpoint(self):
        self.train('--checkpoint', 'c', '--optimizer', 'sgd')
        before = (self.folder / 'c').read_bytes()
        self.assert_refused('step', flags=('--checkpoint', 'c', '--resume', '--epochs', '9', '--lr',
                                           '1e30', '--optimizer', 'sgd'))
        self.assertEqual((self.folder / 'c').read_bytes(), before)

    def test_too_many_parts(self):
        self.assert_refused('6', '5', flags=('--parts', '6'))

    def test_metrics_that_cannot_be_written(self):
        self.assert_refused('nowhere/m', flags=('--metrics', 'nowhere/m'))
        self.assert_refused('/dev/full', flags=('--metrics', '/dev/full'))


class BadDiskTest(program.CliTest):
    def test_folder_that_is_none(self):
        for path in ('nowhere/c', 'points.csv/c', '/proc/c'):
            result = self.call('train', self.net, '--checkpoint', path, '--metrics', 'm')
            self.assert_fails(result, path)
            # Said before the first step, not at the end of a long run.
            self.assertNotIn('m', self.names())

    @unittest.skipIf(os.geteuid() == 0, 'permissions do not hold for root')
    def test_folder_without_permission(self):
        locked = self.folder / 'locked'
        locked.mkdir(mode=0o555)
        self.assert_fails(self.call('train', self.net, '--checkpoint', 'locked/c'), 'locked/c',
                          'Permission denied')
        self.assertEqual(list(locked.iterdir()), [])

    def call_in_mount(self, size, script):
        """Runs a shell script with $H as the program, below a fresh file system of `size` at ./disk."""
        (self.folder / 'disk').mkdir()
        mount = f'mount -t tmpfs -o size={size} none disk || exit 99\n'
        environment = dict(program.limited_environment(), H=str(program.HARMONICS))
        return subprocess.run(['unshare', '-rm', 'sh', '-c', mount + script], cwd=self.folder,
                              env=environment, capture_output=True, text=True,
                              timeout=program.TIMEOUT_S)

    @unittest.skipUnless(can_mount(), 'this user may not mount file systems')
    def test_read_only_folder(self):
        result = self.call_in_mount('1m', 'mount -o remount,ro disk || exit 99\n'
                                    '"$H" train net.harp --checkpoint disk/c --metrics m')
        self.assert_fails(result, 'disk/c', 'Read-only file system')
        self.assertNotIn('m', self.names())

    @unittest.skipUnless(can_mount(), 'this user may not mount file systems')
    def test_full_disk(self):
        result = self.call_in_mount('4k', '"$H" train net.harp --checkpoint disk/c; code=$?\n'
                                    'ls -A disk; exit $code')
        self.assertEqual(result.returncode, 1)
        self.assertIn("'disk/c'", result.stderr)
        self.assertIn('No space left on device', result.stderr)
        self.assertEqual(result.stdout, '')  # nothing lies on the disk

    def test_file_size_limit(self):
        """The same without a mount: the system refuses to let any file grow past 4 KiB."""
        self.train('--epochs', '1', '--checkpoint', 'c')
        before = (self.folder / 'c').read_bytes()
        self.assertGreater(len(before), 4096)
        # Python ignores SIGXFSZ, and so does the child, as long as it is not restored.
        result = self.call('train', self.net, '--checkpoint', 'c', restore_signals=False,
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)))
        self.assert_fails(result, "'c'", 'File too large')
        self.assertEqual((self.folder / 'c').read_bytes(), before)
        self.assertEqual(self.names(), ['c', 'net.harp', 'points.csv'])


if __name__ == '__main__':
    unittest.main()
