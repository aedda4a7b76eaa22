"""HyperQueue's Python client beside ours: how long `true` tasks take, of one job or each a job of its own.

usage: hyperqueue_peer.py array|singles COUNT SLOTS      (prints the seconds; run by bench/cluster_client.py)
"""

import os
import sys
import tempfile
import time

from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig


def job_of(count):
    job = Job()
    for _ in range(count):
        job.program(['true'], stdout=None, stderr=None)  # Its output is thrown away; ours is kept.
    return job


def main(kind, count, slots):
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with LocalCluster(server_dir=folder, worker_config=WorkerConfig(cores=int(slots))) as cluster:
            client = cluster.client()
            client.wait_for_jobs([client.submit(job_of(1))])
            begin = time.monotonic()
            if kind == 'array':
                jobs = [client.submit(job_of(int(count)))]
            else:
                jobs = [client.submit(job_of(1)) for _ in range(int(count))]
            client.wait_for_jobs(jobs)
            print(f'\nseconds {time.monotonic() - begin}')
        os.chdir('/')


if __name__ == '__main__':
    main(*sys.argv[1:])
