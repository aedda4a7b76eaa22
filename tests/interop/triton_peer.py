"""Asks a service with tritonclient as it comes from the package index: HTTP and gRPC, many clients at once.

usage: triton_peer.py HTTP_PORT GRPC_PORT      prints one JSON object
"""

import concurrent.futures
import json
import random
import sys

import numpy
import tritonclient.grpc
import tritonclient.http

CLIENTS, REQUESTS, ROWS, MOST = 16, 12, 64, 3
MODEL, INPUT, OUTPUT = 'digits', 'image', 'prediction'


def rows():
    return numpy.random.default_rng(3).random((ROWS, 64), dtype=numpy.float32)


def infer(kind, client, data, binary=True):
    tensor = kind.InferInput(INPUT, list(data.shape), 'FP32')
    if kind is tritonclient.http:
        tensor.set_data_from_numpy(data, binary_data=binary)
        wanted = [kind.InferRequestedOutput(OUTPUT, binary_data=binary)]
    else:
        tensor.set_data_from_numpy(data)
        wanted = [kind.InferRequestedOutput(OUTPUT)]
    return client.infer(MODEL, [tensor], outputs=wanted, request_id='7').as_numpy(OUTPUT)


def check(kind, address, data):
    """The answer to each row alone, and how many answers in company were not bit-equal to them."""
    client = kind.InferenceServerClient(address)
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready(MODEL)
    metadata = client.get_model_metadata(MODEL)
    names = ([one['name'] for one in metadata['inputs']] if kind is tritonclient.http
             else [one.name for one in metadata.inputs])
    assert names == [INPUT], names
    server = client.get_server_metadata()
    assert (server['name'] if kind is tritonclient.http else server.name) == 'harmonics'
    alone = numpy.concatenate([infer(kind, client, row[None]) for row in data])
    if kind is tritonclient.http:
        assert infer(kind, client, data[:1], binary=False).tobytes() == alone[:1].tobytes()
        tensor = kind.InferInput(INPUT, [1, 64], 'FP32')
        tensor.set_data_from_numpy(data[:1])
        assert client.infer(MODEL, [tensor]).as_numpy(OUTPUT).tobytes() == alone[:1].tobytes()

    def ask(number):
        chance = random.Random(number)
        own = kind.InferenceServerClient(address)
        different = 0
        for _ in range(REQUESTS):
            count = chance.randint(1, MOST)
            first = chance.randrange(ROWS - count)
            answer = infer(kind, own, data[first:first + count])
            different += answer.tobytes() != alone[first:first + count].tobytes()
        own.close()
        return different

    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        different = sum(pool.map(ask, range(CLIENTS)))
    try:
        infer(kind, client, numpy.zeros((1, 63), numpy.float32))
        refusal = ''
    except Exception as error:
        refusal = str(error)
    client.close()
    return alone, different, refusal


def main():
    data = rows()
    http, http_different, http_refusal = check(tritonclient.http, f'127.0.0.1:{sys.argv[1]}', data)
    grpc, grpc_different, grpc_refusal = check(tritonclient.grpc, f'127.0.0.1:{sys.argv[2]}', data)
    print(json.dumps({'asked': CLIENTS * REQUESTS, 'http_different': http_different,
                      'grpc_different': grpc_different, 'same': http.tobytes() == grpc.tobytes(),
                      'refusals': [http_refusal, grpc_refusal]}))


if __name__ == '__main__':
    main()
