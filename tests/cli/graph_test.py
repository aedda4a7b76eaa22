"""harmonics graph show, check, dot, svg, zoo."""

import json
import math
import unittest
import xml.etree.ElementTree

import program

EXAMPLES = sorted([*program.EXAMPLES.glob('*.harp'), *program.EXAMPLES.glob('models/*.harp')])
ZOO = ['digits-mlp', 'lenet', 'lenet-digits', 'resnet18', 'resnet50', 'transformer-small', 'vit-base',
       'vit-large']


class GraphTest(program.CliTest):
    def test_there_are_examples(self):
        names = {path.name for path in EXAMPLES}
        self.assertLessEqual({'digits.harp', 'lenet.harp', 'mnist.harp', 'transformer.harp',
                              'resnet18.harp'}, names)

    def test_show_every_example(self):
        for path in EXAMPLES:
            with self.subTest(path.name):
                graph = json.loads(self.done('graph', 'show', path, '--output', 'json'))
                table = self.done('graph', 'show', path)
                names = [layer['name'] for layer in graph['layers']]
                self.assertEqual(self.done('graph', 'show', path, '--output', 'quiet').split(), names)
                folded = ' x)' in table  # of groups that repeat the table shows the first
                for name in (names[0], names[-1]) if folded else names:
                    self.assertIn(name, table)
                self.assertNotIn('\x1b', table)
                if graph['resolved']:
                    self.assertEqual(graph['parameters'],
                                     sum(layer['parameters'] for layer in graph['layers']))
                    self.assertIn(f"{len(names)} layers, {graph['parameters']:,} parameters", table)

    def test_show_folds_groups_that_repeat(self):
        blocks = 'repeat {0} as i {{ group block$i {{ layer a$i linear(4); layer b$i linear(4); }} }}'
        flow = 'cycle {{ x -> a0; repeat {0} as i {{ a0 -> a$i -(relu)-> b$i; }} b{0} -> y; }}'
        for rounds, folded in ((5, False), (6, True)):
            path = self.write('deep.harp', 'producer x {4}; consumer y; layer a0 linear(4);'
                              + blocks.format(rounds) + flow.format(rounds))
            table = self.done('graph', 'show', path)
            self.assertEqual(f'block1 … block{rounds} ({rounds} x)' in table, folded)
            self.assertEqual('a2 ' in table, not folded)
            names = self.done('graph', 'show', path, '--output', 'quiet').split()
            self.assertEqual(len(names), 2 * rounds + 1)

    def test_show_says_what_a_layer_is(self):
        graph = json.loads(self.done('graph', 'show', self.net, '--output', 'json'))
        wide = graph['layers'][0]
        self.assertEqual((wide['name'], wide['type'], wide['output'], wide['parameters']),
                         ('wide', 'linear', [16], 80))
        self.assertEqual(graph['losses'][0]['loss'], 'cross_entropy')
        self.assertEqual(graph['producers'][1], {'name': 'label', 'dtype': 'int64', 'shape': [1]})
        table = self.done('graph', 'show', self.net)
        self.assertRegex(table, r'(?m)^norm +batch_norm \+ relu +\{16\} +32 ')

    def test_show_names_every_parameter(self):
        graph = json.loads(self.done('graph', 'show', self.net, '--output', 'json'))
        named = {tensor['name']: tensor for layer in graph['layers'] for tensor in layer['tensors']}
        self.assertEqual(named['wide.weight'], {'name': 'wide.weight', 'shape': [16, 4], 'trainable': True})
        self.assertEqual(named['norm.running_var']['trainable'], False)
        sizes = [math.prod(tensor['shape']) for tensor in named.values() if tensor['trainable']]
        self.assertEqual(sum(sizes), graph['parameters'])

    def test_parts_list_the_boundaries(self):
        listed = json.loads(self.done('graph', 'parts', self.net, '--parts', '3', '--output', 'json'))
        self.assertEqual([part['name'] for part in listed['parts']],
                         ['quadrant_0', 'quadrant_1', 'quadrant_2'])
        shown = json.loads(self.done('graph', 'show', self.net, '--output', 'json'))
        self.assertEqual([name for part in listed['parts'] for name in part['layers']],
                         [layer['name'] for layer in shown['layers']])
        names = [boundary['name'] for boundary in listed['boundaries']]
        self.assertEqual(self.done('graph', 'parts', self.net, '--parts', '3', '--output', 'quiet').split(), names)
        for boundary in listed['boundaries']:
            self.assertTrue(boundary['name'].endswith(f"@{boundary['to']}"))
            self.assertLess(boundary['from'], boundary['to'])
        table = self.done('graph', 'parts', self.net, '--parts', '3')
        for name in names:
            self.assertIn(name, table)
        self.assertNotIn('boundary', self.done('graph', 'parts', self.net, '--parts', '1'))
        self.assert_fails(self.call('graph', 'parts', self.net, '--parts', '9'), '5')

    def test_check_every_example(self):
        for path in EXAMPLES:
            with self.subTest(path.name):
                text = self.done('graph', 'check', path)
                self.assertEqual(text.count('\n'), 1)
                self.assertIn('is in order', text)

    def test_check_finds_mistakes(self):
        layer = self.write('layer.harp', program.GRAPH.replace('batch_norm', 'batch_nrom'))
        self.assert_fails(self.call('graph', 'check', layer), 'layer.harp:6:', 'batch_nrom')
        shape = self.write('shape.harp', program.GRAPH.replace('prediction {4}', 'prediction {5}'))
        self.assert_fails(self.call('graph', 'check', shape), 'prediction', '{4}', '{5}')
        key = self.write('key.harp', program.GRAPH + 'train {\n  epochs = 3;\n  epoch = 4;\n}\n')
        line = program.GRAPH.count('\n') + 3
        self.assert_fails(self.call('graph', 'check', key), f'key.harp:{line}:', "'epoch'",
                          'batch_size')
        self.assert_fails(self.call('graph', 'check', 'nothing.harp'), "'nothing.harp'",
                          'No such file')

    def test_draw_every_example(self):
        for path in EXAMPLES:
            with self.subTest(path.name):
                graph = json.loads(self.done('graph', 'show', path, '--output', 'json'))
                dot = self.done('graph', 'dot', path)
                self.assertTrue(dot.startswith('digraph'))
                svg = self.done('graph', 'svg', path)
                root = xml.etree.ElementTree.fromstring(svg)
                self.assertEqual(root.tag, '{http://www.w3.org/2000/svg}svg')
                shown = ' '.join(root.itertext())
                for layer in graph['layers']:
                    self.assertIn(layer['name'], dot)
                    self.assertIn(layer['name'], shown)

    def test_draw_to_a_file(self):
        for form in ('dot', 'svg'):
            self.assertEqual(self.done('graph', form, self.net, '--out', 'picture'), '')
            self.assertEqual((self.folder / 'picture').read_text(), self.done('graph', form, self.net))
        result = self.call('graph', 'svg', self.net, '--out', 'nowhere/picture')
        self.assert_fails(result, 'nowhere/picture', 'No such file or directory')

    def test_zoo(self):
        self.assertEqual(self.done('graph', 'zoo').split(), ZOO)
        for name in ZOO:
            with self.subTest(name):
                text = self.done('graph', 'zoo', name)
                path = self.folder / 'zoo.harp'
                self.assertEqual(self.done('graph', 'zoo', name, '--out', path), '')
                self.assertEqual(path.read_text(), text)
                self.assertIn('is in order', self.done('graph', 'check', path))

    def test_names_of_the_zoo_stand_for_files(self):
        self.done('graph', 'zoo', 'lenet', '--out', 'written.harp')
        for words in (('show', '--output', 'json'), ('parts', '--parts', '2'), ('dot',), ('svg',)):
            with self.subTest(words[0]):
                self.assertEqual(self.done('graph', words[0], 'lenet', *words[1:]),
                                 self.done('graph', words[0], 'written.harp', *words[1:]))
        self.assertIn('is in order', self.done('graph', 'check', 'lenet'))
        # A file of that name comes first.
        self.done('graph', 'zoo', 'digits-mlp', '--out', self.folder / 'lenet')
        self.assertEqual(self.done('graph', 'show', 'lenet'), self.done('graph', 'show', 'digits-mlp'))

    def test_a_word_that_is_neither_names_what_there_is(self):
        for words in (('graph', 'show'), ('graph', 'check'), ('graph', 'svg'), ('train',), ('run',)):
            with self.subTest(words):
                self.assert_fails(self.call(*words, 'resnet-18'),
                                  "there is no file 'resnet-18', and no network of that name in the zoo",
                                  ', '.join(ZOO), "; did you mean 'resnet18'?")

    def test_zoo_sizes_are_the_published_ones(self):
        for name, parameters in (('resnet18', 11_689_512), ('vit-base', 86_567_656)):
            self.done('graph', 'zoo', name, '--out', 'zoo.harp')
            graph = json.loads(self.done('graph', 'show', 'zoo.harp', '--output', 'json'))
            self.assertEqual(graph['parameters'], parameters)


if __name__ == '__main__':
    unittest.main()
