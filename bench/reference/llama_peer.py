"""llama.cpp on one thread (package xllamacpp): llama_peer.py FILE.gguf

Reads numbers of tokens, a line each, and answers each with the CPU seconds of going on with a prompt for so many.
"""

import json
import sys
import time

import xllamacpp


def main():
    params = xllamacpp.CommonParams()
    params.model.path = sys.argv[1]
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.n_ctx, params.n_parallel, params.warmup, params.verbosity = 2048, 1, False, -1
    server = xllamacpp.Server(params)
    answer = sys.__stdout__
    print(json.dumps({'system': xllamacpp.get_system_info()}), file=answer, flush=True)
    for line in sys.stdin:
        start = time.process_time()
        done = server.handle_completions({'prompt': 'The moon is', 'max_tokens': int(line), 'temperature': 0,
                                          'ignore_eos': True, 'cache_prompt': False})
        spent = time.process_time() - start
        made = (json.loads(done) if isinstance(done, str) else done)['usage']['completion_tokens']
        print(json.dumps({'cpu_s': spent, 'tokens': made}), file=answer, flush=True)


if __name__ == '__main__':
    main()
