"""What a person sees: a bar on a terminal, plain lines in a pipe."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import unittest

import program


class ProgressTest(program.CliTest):
    def on_terminal(self, *arguments, columns=80):
        """Standard error of a run whose standard error is a terminal, and its standard output."""
        reader, writer = pty.openpty()
        fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack('HHHH', 24, columns, 0, 0))
        process = self.start(*arguments, stderr=writer)
        os.close(writer)
        shown = b''
        while True:
            try:
                chunk = os.read(reader, 65536)
            except OSError:  # the other end is closed
                break
            if not chunk:
                break
            shown += chunk
        os.close(reader)
        output, _ = process.communicate(timeout=program.TIMEOUT_S)
        self.assertEqual(process.returncode, 0)
        return shown.decode(), output

    def test_bar_on_a_terminal(self):
        self.write('points.csv', program.points(2000))
        shown, output = self.on_terminal('train', self.net, '--epochs', '5')
        drawn = [line for line in re.split(r'[\r\n]+', shown) if '[' in line and '.' in line]
        bars = [re.sub(r'\x1b\[[0-9;]*[mK]', '', line) for line in drawn if 'left' in line]
        self.assertGreater(len(bars), 1)
        for bar in bars:
            self.assertRegex(bar, r'^epoch [1-5]/5 \[#*\.*\]  loss \d+\.\d+  acc +[\d.]+ %  '
                                  r'.*samples/s +\d+:\d\d left$')
            self.assertLess(len(bar), 80)
        epochs = re.findall(r'epoch (\d)/5  loss [\d.]+  accuracy [\d.]+ %  test loss', shown)
        self.assertEqual(epochs, ['1', '2', '3', '4', '5'])
        # Standard output is a pipe here: no colour there.
        self.assertNotIn('\x1b', output)
        self.assertIn('trained quadrant', output)

    def test_narrow_terminal(self):
        shown, _ = self.on_terminal('train', self.net, columns=30)
        for line in re.split(r'[\r\n]+', shown):
            if 'left' in line or line.endswith('\x1b[K'):
                self.assertLess(len(line.replace('\x1b[K', '')), 30)

    def test_no_bar_for_machines(self):
        for style in ('json', 'quiet'):
            shown, _ = self.on_terminal('train', self.net, '--output', style)
            self.assertEqual(shown, '')

    def test_no_control_characters_in_a_pipe(self):
        result = self.call('train', self.net)
        for text in (result.stdout, result.stderr):
            self.assertFalse(re.search(r'[\x00-\x09\x0b-\x1f\x7f]', text))
        self.assertEqual(result.stderr.count('\n'), 3)

    def test_colour_of_errors(self):
        def error(**extra):
            reader, writer = pty.openpty()
            subprocess.run([program.HARMONICS, 'graph', 'check', 'nothing.harp'], stderr=writer,
                           env=dict(program.limited_environment(), **extra), cwd=self.folder,
                           timeout=program.TIMEOUT_S)
            shown = os.read(reader, 65536).decode()
            os.close(writer)
            os.close(reader)
            return shown
        self.assertIn('\x1b[1;31mharmonics:\x1b[0m cannot read', error())
        self.assertIn('harmonics: cannot read', error(NO_COLOR='1'))
        self.assertIn('harmonics: cannot read', error(TERM='dumb'))


if __name__ == '__main__':
    unittest.main()
