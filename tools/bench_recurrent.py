"""Times layers of sequences beside PyTorch's, runs interleaved, and compares the memory that they take.

    python tools/bench_recurrent.py --build build [--threads 1 2] [--rounds 12] [--layers gnmt awd1 awd2 gnmt_bi
        attention bert512]

The python that runs this has PyTorch (CPU). A round is one forward and one backward of one layer in f32, gradients of
the input and of all parameters; the best round and the median are printed, in processor time of all threads. What PyTorch keeps is what autograd packs
between them, the input, the output and the parameters apart. Grown: by how much the memory of the program exceeds, at
its largest in a round, what it had before, of the first whole round. bert512 is BERT-base's attention over 512 tokens,
PyTorch's scaled_dot_product_attention.
"""
import argparse
import os
import statistics
import subprocess
import sys
import time

LAYERS = {  # name: layer, rows, steps, features (keys of attention), hidden
    "gnmt": ("lstm", 32, 25, 1024, 1024), "awd1": ("lstm", 20, 70, 400, 1150), "awd2": ("lstm", 20, 70, 1150, 1150),
    "gnmt_bi": ("bidirectional", 32, 25, 1024, 1024), "attention": ("attention", 32, 25, 25, 1024),
    "bert512": ("self_attention", 8, 512, 768, 12)}


def torch_module(torch, layer, features, hidden):
    if layer == "self_attention":
        class SelfAttention(torch.nn.Module):
            def forward(self, *qkv):
                q, k, v = (x.unflatten(2, (hidden, -1)).transpose(1, 2) for x in qkv)
                return torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)

        return SelfAttention()
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


def memory_bytes(field):
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(field + ":"))


def torch_inputs(torch, layer, rows, steps, features, hidden):
    extents = {"attention": [(steps, hidden), (features, hidden)], "self_attention": [(steps, features)] * 3}
    return [torch.randn(rows, *e, requires_grad=True) for e in extents.get(layer, [(steps, features)])]


def torch_rounds(threads, rounds, layer, rows, steps, features, hidden):
    import torch
    torch.set_num_threads(threads)
    module = torch_module(torch, layer, features, hidden)
    few = module(*torch_inputs(torch, layer, 1, 8, features, hidden))  # code is loaded
    (few[0] if isinstance(few, tuple) else few).sum().backward()
    del few
    inputs = torch_inputs(torch, layer, rows, steps, features, hidden)
    known = {x.untyped_storage().data_ptr() for x in [*inputs, *module.parameters()]}
    for _ in range(rounds):
        kept = {}

        def pack(x):
            storage = x.untyped_storage()
            if storage.data_ptr() not in known:
                kept[storage.data_ptr()] = storage.nbytes()
            return x

        for x in [*inputs, *module.parameters()]:
            x.grad = None
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
        before = memory_bytes("VmRSS")
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
            start = time.process_time()
            y = module(*inputs)
        y = y[0] if isinstance(y, tuple) else y
        between = time.process_time()
        dy = torch.ones_like(y)
        y.backward(dy)
        end = time.process_time()
        kept.pop(y.untyped_storage().data_ptr(), None)
        grown = memory_bytes("VmHWM") - before - dy.nbytes  # ours is there before
        print(f"{(between - start) * 1e3:.3f} {(end - between) * 1e3:.3f} {sum(kept.values())} {grown}", flush=True)
        del y, dy


def measured(command):
    lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    rounds = [tuple(map(float, line.split())) for line in lines]
    return [(*times, kept, rounds[0][3]) for *times, kept, _ in rounds[2:]]  # the first ones make and learn


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
    print("layer threads | Penstock: forward backward best median ms, kept and grown MB | PyTorch: the same | best, median ratio")
    for name in arguments.layers:
        for threads in arguments.threads:
            ours, theirs = [], []
            for _ in range(3):
                what = [str(threads), str(arguments.rounds // 3 + 2), *map(str, LAYERS[name])]
                ours += measured([os.path.join(arguments.build, "bin", "bench_recurrent"), *what])
                theirs += measured([sys.executable, __file__, "--torch-child", *what])
            text, bests, medians = f"{name} {threads}", [], []
            for rounds in (ours, theirs):
                both = [r[0] + r[1] for r in rounds]
                bests.append(min(both))
                medians.append(statistics.median(both))
                text += (f" | {min(r[0] for r in rounds):.1f} {min(r[1] for r in rounds):.1f} {bests[-1]:.1f}"
                         f" {medians[-1]:.1f}, {rounds[0][2] / 1e6:.1f} {rounds[0][3] / 1e6:.1f}")
            print(f"{text} | {bests[0] / bests[1]:.2f} {medians[0] / medians[1]:.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
