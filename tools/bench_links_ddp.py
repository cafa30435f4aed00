#!/usr/bin/env python3
"""One rank of PyTorch's DistributedDataParallel for tools/bench_links: MODEL IMAGE_SIZE BATCH STEPS.

After a first step, which sends the initial weights too, come STEPS that count. Each rank prints one line of JSON: the
seconds of each, and the bytes that its host sent meanwhile."""

import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import bench_models  # noqa: E402: beside this file


def bytes_sent():
    dist.barrier()
    with open("/sys/class/net/" + os.environ["GLOO_SOCKET_IFNAME"] + "/statistics/tx_bytes", encoding="ascii") as file:
        return int(file.read())


def main():
    model, size, batch, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    net = getattr(bench_models, model)(nn)
    net = nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.001, momentum=0.9)
    loss = nn.CrossEntropyLoss()
    inputs = torch.randn(batch, 3, size, size)
    targets = torch.randint(0, 10, (batch,))
    times = []
    before = 0
    for step in range(1 + steps):
        if step == 1:
            before = bytes_sent()
        begin = time.monotonic()
        optimizer.zero_grad()
        loss(net(inputs), targets).backward()
        optimizer.step()
        if step > 0:
            times.append(time.monotonic() - begin)
    print(json.dumps({"seconds": times, "bytes": bytes_sent() - before}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
