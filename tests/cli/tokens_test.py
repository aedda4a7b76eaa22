"""harmonics tokens: texts of a flag, of lines and of JSON lines as rows of ids, and back."""

import json
import unittest

import program

WORDS = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', 'hello', 'world', 'un', '##known', '!']
TOKENIZER = {
    'version': '1.0', 'truncation': None, 'padding': None,
    'added_tokens': [{'id': i, 'content': word, 'single_word': False, 'lstrip': False, 'rstrip': False,
                      'normalized': False, 'special': True} for i, word in enumerate(WORDS[:4])],
    'normalizer': {'type': 'BertNormalizer', 'clean_text': True, 'handle_chinese_chars': True, 'strip_accents': None,
                   'lowercase': True},
    'pre_tokenizer': {'type': 'BertPreTokenizer'},
    'post_processor': {'type': 'TemplateProcessing',
                       'single': [{'SpecialToken': {'id': '[CLS]', 'type_id': 0}}, {'Sequence': {'id': 'A', 'type_id': 0}},
                                  {'SpecialToken': {'id': '[SEP]', 'type_id': 0}}],
                       'pair': [{'Sequence': {'id': 'A', 'type_id': 0}}, {'Sequence': {'id': 'B', 'type_id': 1}}],
                       'special_tokens': {'[CLS]': {'id': '[CLS]', 'ids': [2], 'tokens': ['[CLS]']},
                                          '[SEP]': {'id': '[SEP]', 'ids': [3], 'tokens': ['[SEP]']}}},
    'decoder': {'type': 'WordPiece', 'prefix': '##', 'cleanup': True},
    'model': {'type': 'WordPiece', 'unk_token': '[UNK]', 'continuing_subword_prefix': '##',
              'max_input_chars_per_word': 100, 'vocab': {word: i for i, word in enumerate(WORDS)}},
}


class TokensTest(program.CliTest):
    def setUp(self):
        super().setUp()
        self.tokenizer = self.write('tokenizer.json', json.dumps(TOKENIZER))

    def tokens(self, *words):
        return self.done('tokens', '--tokenizer', self.tokenizer, *words)

    def test_one_text(self):
        self.assertEqual(self.tokens('--text', 'Hello unknown!', '--output', 'quiet').split(), '2 4 6 7 8 3'.split())
        self.assertEqual(self.tokens('--text', 'hello', '--no-special', '--output', 'quiet').split(), ['4'])
        self.assertIn('hello world', self.tokens('--decode', '--text', '2 4 5 3', '--no-special', '--output', 'quiet'))

    def test_rows_of_one_length(self):
        lines = self.write('lines.jsonl', '{"said": "hello"}\n{"said": "hello world unknown !"}\n')
        rows = [json.loads(line) for line in self.tokens(lines, '--field', 'said', '--length', '4', '--pad', '--output',
                                                         'json').splitlines()]
        self.assertEqual([row['input_ids'] for row in rows], [[2, 4, 3, 0], [2, 4, 5, 3]])
        self.assertEqual([row['attention_mask'] for row in rows], [[1, 1, 1, 0], [1, 1, 1, 1]])

    def test_wrong_words(self):
        self.assert_fails(self.call('tokens', '--tokenizer', self.tokenizer, 'missing.txt'), 'missing.txt')
        self.assert_fails(self.call('tokens', '--tokenizer', 'nowhere', '--text', 'x'), 'nowhere')


if __name__ == '__main__':
    unittest.main()
