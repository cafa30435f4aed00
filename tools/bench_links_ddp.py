#!/usr/bin/env python3
"""One rank of PyTorch's DistributedDataParallel for tools/bench_links: MODEL IMAGE_SIZE BATCH STEPS.

Rank 0 prints the seconds of each step as a JSON list."""

import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import bench_step  # noqa: E402: beside this file


def main():
    model, size, batch, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    net = getattr(bench_step, model)(nn)
    net = nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.001, momentum=0.9)
    loss = nn.CrossEntropyLoss()
    inputs = torch.randn(batch, 3, size, size)
    targets = torch.randint(0, 10, (batch,))
    times = []
    for _ in range(steps):
        begin = time.monotonic()
        optimizer.zero_grad()
        loss(net(inputs), targets).backward()
        optimizer.step()
        times.append(time.monotonic() - begin)
    if dist.get_rank() == 0:
        print(json.dumps(times))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
