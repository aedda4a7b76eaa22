"""The other side of tokenizer_bench: encodes lines with the tokenizers package on one thread and says what that took.

usage: tokenizers_rounds.py FOLDER

The lines are those of this repository's pages, in FOLDER/lines.txt. Each line that comes in is answered by one that
begins with "ok" or "failed":

  case NAME   opens the tokenizer (minilm: MiniLM's own; gpt2, llama3: byte-level ones that split as these do, trained
              once on the lines) and answers with its file, how many ids the lines have, and their sum
  round       encodes all lines and answers with the CPU seconds

Without the packages that it needs it says so and ends with 0.
"""

import os
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / 'tests'))
VOCABULARY = 8000
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")


def restart():
    """Goes on in an interpreter that has the package."""
    import packages
    python = packages.interpreter('tokenizers', ['tokenizers==0.19.1'], 'tokenizers')
    if python is None:
        print('failed: the tokenizers package is not here', flush=True)
        sys.exit(0)
    os.execve(python, [str(python), *sys.argv],
              dict(os.environ, HARMONICS_PEER='1', TOKENIZERS_PARALLELISM='false', RAYON_NUM_THREADS='1'))


def lines_of(folder):
    texts = [line for page in sorted((ROOT / 'docs').rglob('*.md'))
             for line in page.read_text(encoding='utf-8').splitlines() if line.strip()]
    (folder / 'lines.txt').write_text('\n'.join(texts) + '\n', encoding='utf-8')
    return texts


def trained(file, lines, pre_tokenizer):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    if not file.exists():
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizer
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer.train_from_iterator(lines, trainers.BpeTrainer(
            vocab_size=VOCABULARY, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
        unfinished = file.with_suffix('.part')
        tokenizer.save(str(unfinished))
        unfinished.rename(file)
    return file


def tokenizer_file(name, folder, lines):
    from tokenizers import Regex, pre_tokenizers
    if name == 'minilm':
        import packages
        source = packages.minilm()
        if source is None:
            raise FileNotFoundError('the tokenizer of MiniLM could not be fetched')
        return source / 'tokenizer.json'
    if name == 'gpt2':
        return trained(folder / 'gpt2.json', lines, pre_tokenizers.ByteLevel(add_prefix_space=False))
    return trained(folder / 'llama3.json', lines, pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3), 'isolated'),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]))


def main():
    from tokenizers import Tokenizer
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    lines = lines_of(folder)
    tokenizer = None
    for request in sys.stdin:
        words = request.split()
        try:
            if words[0] == 'case':
                file = tokenizer_file(words[1], folder, lines)
                tokenizer = Tokenizer.from_file(str(file))
                tokenizer.no_truncation()
                tokenizer.no_padding()
                ids = [one for encoding in tokenizer.encode_batch(lines) for one in encoding.ids]
                print('ok', file, len(ids), sum(ids), flush=True)
            else:
                begin = time.process_time()
                tokenizer.encode_batch(lines)
                print('ok', time.process_time() - begin, flush=True)
        except Exception as error:  # whatever it is, the other side hears of it
            print('failed:', str(error).replace('\n', ' '), flush=True)


if __name__ == '__main__':
    if os.environ.get('HARMONICS_PEER') != '1':
        restart()
    main()
