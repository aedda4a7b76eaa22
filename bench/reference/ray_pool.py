#!/usr/bin/env python3
"""A pool of unlike actors in Ray, as in its issue 27953: one fast and one slow actor, and equal chunks of the rows for
whichever is free. Prints rows a second.

usage: ray_pool.py ROWS CHUNK FAST_RATE SLOW_RATE LATENCY_S        (run by bench/python_bench.py with a Python that has ray)
"""

import sys
import time

import ray
from ray.util import ActorPool


@ray.remote(num_cpus=0)
class Model:
    """Takes a stated time for a batch, as the emulated devices of the bench do."""

    def __init__(self, rate, latency):
        self.rate, self.latency = rate, latency

    def inference(self, batch):
        """The batch, once its time is over."""
        time.sleep(self.latency + len(batch) / self.rate)
        return batch


def main():
    rows, chunk = int(sys.argv[1]), int(sys.argv[2])
    fast, slow, latency = map(float, sys.argv[3:])
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level='error', _node_ip_address='127.0.0.1')
    actors = [Model.remote(fast, latency), Model.remote(slow, latency)]
    ray.get([actor.inference.remote([]) for actor in actors])
    items = list(range(rows))
    chunks = [items[start:start + chunk] for start in range(0, rows, chunk)]
    start = time.monotonic()
    done = sum(len(part) for part in ActorPool(actors).map_unordered(lambda actor, part: actor.inference.remote(part), chunks))
    took = time.monotonic() - start
    ray.shutdown()
    assert done == rows
    print(rows / took)


if __name__ == '__main__':
    main()
