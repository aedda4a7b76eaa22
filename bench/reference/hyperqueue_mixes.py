"""A mix of tasks on HyperQueue's scheduler, on a worker whose cores stand for devices.

usage: hyperqueue_mixes.py TASKS.json DEVICES      (prints when it began; run by bench/cluster_mixes.py)
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig
from hyperqueue.ffi.protocol import ResourceRequest


def job_of(tasks):
    job = Job()
    for task in tasks:
        wanted = [ResourceRequest(cpus=task['devices'])]
        if task['variant']:
            wanted.append(ResourceRequest(cpus=task['variant']))
        job.program(['sh', '-c', task['script']], stdout=None, stderr=None, resources=wanted)
    return job


def main(file, devices):
    tasks = json.loads(Path(file).read_text())
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with LocalCluster(server_dir=folder, worker_config=WorkerConfig(cores=int(devices))) as cluster:
            client = cluster.client()
            warm = Job()
            warm.program(['true'], stdout=None, stderr=None)
            client.wait_for_jobs([client.submit(warm)])
            begin = time.time()
            client.wait_for_jobs([client.submit(job_of(tasks))])
            print(f'\nbegin {begin}')
        os.chdir('/')


if __name__ == '__main__':
    main(*sys.argv[1:])
