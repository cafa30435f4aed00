"""Times recurrent layers beside PyTorch's, runs interleaved, and compares what they keep for the backward.

    python tools/bench_recurrent.py --build build [--threads 1 2] [--rounds 12] [--layers gnmt awd1 awd2 gnmt_bi attention]

The python that runs this has PyTorch (CPU). A round is one forward and one backward of one layer in f32, gradients of
the input and of all parameters; the best round and the median are printed, in processor time of all threads. What PyTorch keeps is what autograd packs
between them, the input and the parameters apart.
"""
import argparse
import os
import statistics
import subprocess
import sys
import time

LAYERS = {  # name: layer, rows, steps, features (keys of attention), hidden
    "gnmt": ("lstm", 32, 25, 1024, 1024), "awd1": ("lstm", 20, 70, 400, 1150), "awd2": ("lstm", 20, 70, 1150, 1150),
    "gnmt_bi": ("bidirectional", 32, 25, 1024, 1024), "attention": ("attention", 32, 25, 25, 1024)}


def torch_module(torch, layer, features, hidden):
    if layer != "attention":
        return torch.nn.LSTM(features, hidden, batch_first=True, bidirectional=layer == "bidirectional")

    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k = torch.nn.Linear(hidden, hidden, False), torch.nn.Linear(hidden, hidden, False)
            self.u, self.g, self.b = (torch.nn.Parameter(torch.randn(n) / 32) for n in (hidden, 1, hidden))

        def forward(self, query, keys):
            energy = torch.tanh(self.q(query)[:, :, None] + self.k(keys)[:, None] + self.b)
            return torch.softmax(energy @ (self.g * self.u / self.u.norm()), -1) @ keys

    return Attention()


def torch_rounds(threads, rounds, layer, rows, steps, features, hidden):
    import torch
    torch.set_num_threads(threads)
    module = torch_module(torch, layer, features, hidden)
    inputs = [torch.randn(rows, steps, hidden if layer == "attention" else features, requires_grad=True)]
    if layer == "attention":
        inputs.append(torch.randn(rows, features, hidden, requires_grad=True))
    known = {x.data_ptr() for x in [*inputs, *module.parameters()]}
    for _ in range(rounds):
        kept = {}

        def pack(x):
            if x.data_ptr() not in known:
                kept[x.data_ptr()] = x.untyped_storage().nbytes()
            return x

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
            start = time.process_time()
            y = module(*inputs)
        y = y[0] if isinstance(y, tuple) else y
        between = time.process_time()
        y.backward(torch.ones_like(y))
        end = time.process_time()
        kept.pop(y.data_ptr(), None)
        print(f"{(between - start) * 1e3:.3f} {(end - between) * 1e3:.3f} {sum(kept.values())}", flush=True)


def measured(command):
    lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    return [tuple(map(float, line.split())) for line in lines[2:]]  # the first ones make and learn


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--layers", nargs="+", default=list(LAYERS), choices=list(LAYERS))
    parser.add_argument("--torch-child", nargs=7, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.torch_child:
        threads, rounds, layer, *extents = arguments.torch_child
        return torch_rounds(int(threads), int(rounds), layer, *map(int, extents))
    print("layer threads | Penstock: forward backward best median ms, kept MB | PyTorch: the same | best, median ratio")
    for name in arguments.layers:
        for threads in arguments.threads:
            ours, theirs = [], []
            for _ in range(3):
                what = [str(threads), str(arguments.rounds // 3 + 2), *map(str, LAYERS[name])]
                ours += measured([os.path.join(arguments.build, "bin", "bench_recurrent"), *what])
                theirs += measured([sys.executable, __file__, "--torch-child", *what])
            text, bests, medians = f"{name} {threads}", [], []
            for rounds in (ours, theirs):
                both = [f + b for f, b, _ in rounds]
                bests.append(min(both))
                medians.append(statistics.median(both))
                text += (f" | {min(f for f, _, _ in rounds):.1f} {min(b for _, b, _ in rounds):.1f} {bests[-1]:.1f}"
                         f" {medians[-1]:.1f}, {rounds[0][2] / 1e6:.1f}")
            print(f"{text} | {bests[0] / bests[1]:.2f} {medians[0] / medians[1]:.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
