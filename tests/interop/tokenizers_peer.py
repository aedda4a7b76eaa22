"""Compares `harmonics tokens` with the tokenizers package, whose interpreter runs this file.

usage: tokenizers_peer.py HARMONICS SOURCE_DIR FOLDER [MINILM_DIR]

Trains tokenizers of the known families on the text of this repository, and takes MiniLM's own where it is given.
Ids and both ways of decoding must be equal for each of 10,000 strings: random ones from all of Unicode, words of
several scripts, and cases that are easily got wrong.
"""

import json
import pathlib
import random
import subprocess
import sys

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors,
                        trainers)

COUNT = 10000
WORDS = ('the don\'t Ünïcode naïve ΣΊΣΥΦΟΣ 1234567 3.14 e-mail@x.org <s> </s> [PAD] [MASK] <|im_start|> İ \'RE ß '
         'Привет مرحبا 日本語 👩‍👩‍👧').split() + ['   ', '\n\n', '\t', ' \'', '\r\n ', '\u3000']
CASES = ['', ' ', '  ', '\n', ' a', 'a ', "Hello, world! I'll've it's 12345 don't  DON'T\r\n\n x",
         '\u0130stanbul \u017f\'\u017f \'S', 'e\u0301\u0323', '\ufffd\x00\x01', '[MASK] [CLS]x[SEP]', '<|endoftext|>a',
         'ﬁ ½ ² ①', '🇩🇪', '\u200b\u200d\u00a0\u2003x', 'a' * 150, ' ' * 70 + 'x', 'ab\u0300\x01\u0323c',
         '\u2e43\u2e42\U0001123f\u1734\u1885\ua9bd\U000111c9\u166d']
RANGES = [(0x20, 0x7f), (0x20, 0x7f), (0, 0x100), (0x300, 0x370), (0x370, 0x600), (0x900, 0xe00), (0x2000, 0x2100),
          (0x4e00, 0x4f00), (0xac00, 0xad00), (0x1e00, 0x2000), (0x1f300, 0x1f700), (0, 0xd800), (0xe000, 0x110000),
          (0x10000, 0x20000)]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace('{1,3}', '')
# As newer vocabularies split; one that is not written out by hand.
CASED = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|\p{N}{1,3}"
         r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def strings():
    chance = random.Random(1)
    texts = list(CASES)
    while len(texts) < COUNT:
        text = ''
        for _ in range(chance.randint(1, 12)):
            if chance.random() < 0.4:
                text += chance.choice(WORDS) + chance.choice(['', ' '])
            else:
                first, last = chance.choice(RANGES)
                points = (chance.randrange(first, last) for _ in range(chance.randint(1, 8)))
                text += ''.join(chr(point) for point in points if not 0xd800 <= point < 0xe000)
        texts.append(text)
    return texts


def trained_bytes(corpus, pre_tokenizer, special=('<|endoftext|>', '<|im_start|>')):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=2500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False,
        special_tokens=[AddedToken(text, special=True, normalized=False) for text in special])
    tokenizer.train_from_iterator(corpus, trainer)
    return tokenizer


def split_bytes(corpus, pattern):
    return trained_bytes(corpus, pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), 'isolated'),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]))


def sentence_pieces(corpus):
    """Pairs over characters with bytes to fall back on, as Llama-2 and Mistral have them."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token='<unk>'))
    trainer = trainers.BpeTrainer(
        vocab_size=1200, limit_alphabet=80, show_progress=False,
        special_tokens=['<unk>', '<s>', '</s>'] + [f'<0x{byte:02X}>' for byte in range(256)])
    tokenizer.train_from_iterator((word for line in corpus for word in line.split()), trainer)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend('▁'), normalizers.Replace(' ', '▁')])
    tokenizer.decoder = decoders.Sequence([decoders.Replace('▁', ' '), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(' ', 1, 0)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single='<s> $A', pair='<s> $A <s>:1 $B:1', special_tokens=[('<s>', 1)])
    content = json.loads(tokenizer.to_str())
    content['added_tokens'] = content['added_tokens'][:3]
    return Tokenizer.from_str(json.dumps(content))


def families(corpus):
    gpt2 = trained_bytes(corpus, pre_tokenizers.ByteLevel(add_prefix_space=False))
    gpt2.add_tokens([AddedToken('naïve', normalized=True, single_word=True), AddedToken('<s>', lstrip=True, rstrip=True)])
    yield 'gpt2', gpt2
    roberta = trained_bytes(corpus, pre_tokenizers.ByteLevel(add_prefix_space=True), ('<s>', '</s>'))
    roberta.post_processor = processors.RobertaProcessing(('</s>', 1), ('<s>', 0))
    yield 'roberta', roberta
    llama3 = split_bytes(corpus, LLAMA3)
    llama3.post_processor = processors.Sequence([processors.ByteLevel(), processors.TemplateProcessing(
        single='<|endoftext|> $A', pair='$A $B:1', special_tokens=[('<|endoftext|>', 0)])])
    yield 'llama3', llama3
    qwen2 = split_bytes(corpus, QWEN2)
    qwen2.normalizer = normalizers.NFC()
    yield 'qwen2', qwen2
    yield 'cased', split_bytes(corpus, CASED)
    yield 'smollm', trained_bytes(corpus, pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]))
    yield 'llama2', sentence_pieces(corpus)


class Peer:
    def __init__(self, harmonics, folder, texts):
        self.harmonics, self.folder, self.texts = harmonics, pathlib.Path(folder), texts
        self.lines = self.folder / 'texts.jsonl'
        self.lines.write_text(''.join(json.dumps(text) + '\n' for text in texts))

    def tokens(self, *arguments):
        done = subprocess.run([self.harmonics, 'tokens', '--output', 'json', *map(str, arguments)],
                              capture_output=True, timeout=120)
        if done.returncode != 0:
            sys.exit(f'harmonics tokens {arguments}: {done.stderr.decode()}')
        return [json.loads(line) for line in done.stdout.split(b'\n') if line]

    def compare(self, name, tokenizer, file):
        tokenizer.no_padding()
        tokenizer.no_truncation()
        expected = tokenizer.encode_batch(self.texts)
        rows = self.tokens('--tokenizer', file, self.lines)
        ids = self.folder / 'ids.jsonl'
        ids.write_text(''.join(json.dumps(row.ids) + '\n' for row in expected))
        back = self.tokens('--tokenizer', file, '--decode', '--no-special', ids)
        whole = self.tokens('--tokenizer', file, '--decode', ids)
        wrong = []
        for text, theirs, row, short, full in zip(self.texts, expected, rows, back, whole, strict=True):
            if (row['input_ids'], row['token_type_ids']) != (theirs.ids, theirs.type_ids):
                wrong.append((text, row['input_ids'], theirs.ids))
            elif short['text'] != tokenizer.decode(theirs.ids):
                wrong.append((text, short['text'], tokenizer.decode(theirs.ids)))
            elif full['text'] != tokenizer.decode(theirs.ids, skip_special_tokens=False):
                wrong.append((text, full['text'], 'with special tokens'))
        print(f'{name}: {len(self.texts) - len(wrong)} of {len(self.texts)} texts equal')
        for case in wrong[:3]:
            print('  ', *map(ascii, case))
        return not wrong


def main(harmonics, source, folder, minilm=None):
    corpus = [line for page in sorted(pathlib.Path(source, 'docs', 'guides').glob('*.md'))
              for line in page.read_text().splitlines(keepends=True)]
    peer = Peer(harmonics, folder, strings())
    equal = []
    if minilm is not None:
        file = pathlib.Path(minilm, 'tokenizer.json')
        equal.append(peer.compare('minilm', Tokenizer.from_file(str(file)), file))
    for name, tokenizer in families(corpus):
        file = pathlib.Path(folder, name + '.json')
        tokenizer.save(str(file))
        equal.append(peer.compare(name, tokenizer, file))
    sys.exit(0 if all(equal) else 1)


if __name__ == '__main__':
    main(*sys.argv[1:])
