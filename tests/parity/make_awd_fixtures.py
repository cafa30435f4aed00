"""Writes the fixture of awd_parity_test.cpp: a narrow AWD LSTM, one gradient and ten steps by PyTorch in float64.

Run where torch and safetensors are installed: python tests/parity/make_awd_fixtures.py
What is stored of a tensor is as in make_fixtures.py; weights and tokens are drawn from (SEED, name) by both sides.
COLUMNS columns of a stream are read in pieces of LENGTHS steps; h and c go from each to the next, without a gradient.
A step is SGD with RATE times its length over LENGTH, gradients clipped at the norm CLIP, weight decay of all
parameters; its loss is that of the tokens with AR and TAR, as the published program's. Nothing is dropped.
"""

import copy
import math
import pathlib

import numpy as np
import torch
from safetensors.torch import save_file

import generator
import torch_models
from make_fixtures import SEED, summary

HERE = pathlib.Path(__file__).resolve().parent
VOCABULARY, EMBEDDING, HIDDEN, LAYERS = 50, 8, 24, 3
COLUMNS, LENGTH, LENGTHS = 5, 7, (7, 5, 9, 2, 7, 6, 3, 8, 7, 4)
ALPHA, BETA = 2.0, 1.0
RATE, CLIP, DECAY = 2.0, 0.25, float(np.float32(1.2e-6))


class Lstm(torch.nn.Module):
    """Named as the published program's, whose hidden weights are masked copies of the raw ones."""

    def __init__(self, inputs, hidden):
        super().__init__()
        self.module = torch.nn.Module()
        for name, shape in (("weight_ih_l0", (4 * hidden, inputs)), ("weight_hh_l0_raw", (4 * hidden, hidden)),
                            ("bias_ih_l0", (4 * hidden,)), ("bias_hh_l0", (4 * hidden,))):
            self.module.register_parameter(name, torch.nn.Parameter(torch.zeros(shape)))
        self.hidden = hidden

    def forward(self, x, state):
        m = self.module
        flat = (m.weight_ih_l0, m.weight_hh_l0_raw, m.bias_ih_l0, m.bias_hh_l0)
        y, h, c = torch._VF.lstm(x, tuple(s[None] for s in state), flat, True, 1, 0.0, False, False, True)
        return y, (h[0], c[0])


class Awd(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = torch.nn.Embedding(VOCABULARY, EMBEDDING)
        sizes = [EMBEDDING] + [HIDDEN] * (LAYERS - 1) + [EMBEDDING]
        self.rnns = torch.nn.ModuleList(Lstm(a, b) for a, b in zip(sizes, sizes[1:]))
        self.decoder = torch.nn.Linear(EMBEDDING, VOCABULARY)
        self.decoder.weight = self.encoder.weight

    def forward(self, tokens, states):
        x, after = self.encoder(tokens), []
        for rnn, state in zip(self.rnns, states):
            x, state = rnn(x, state)
            after.append(tuple(s.detach() for s in state))
        return self.decoder(x), x, after

    def draw(self):
        with torch.no_grad():
            for key, value in self.named_parameters():
                if key == "decoder.bias":
                    value.zero_()
                    continue
                bound = 0.1 if key == "encoder.weight" else 1 / math.sqrt(value.shape[0] // 4)
                value.copy_(torch.from_numpy(generator.uniform(SEED, key, tuple(value.shape), bound)))
        return self


def stream():
    count = COLUMNS * (sum(LENGTHS) + 1)
    words = generator.words(SEED, "tokens", count) % np.uint64(VOCABULARY)
    return torch.from_numpy(words.astype(np.int64)).view(COLUMNS, -1)


def train(net):
    tokens, at = stream(), 0
    kind = net.decoder.bias.dtype
    states = [tuple(torch.zeros(COLUMNS, rnn.hidden, dtype=kind) for _ in "hc") for rnn in net.rnns]
    losses, gradients = [], {}
    for length in LENGTHS:
        net.zero_grad()
        logits, h, states = net(tokens[:, at:at + length], states)
        labels = tokens[:, at + 1:at + length + 1]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        loss = loss + ALPHA * h.pow(2).mean() + BETA * (h[:, 1:] - h[:, :-1]).pow(2).mean()
        loss.backward()
        at += length
        if not gradients:
            gradients = {n: p.grad.detach().double().clone() for n, p in net.named_parameters()}
        norm = math.sqrt(sum(p.grad.double().pow(2).sum().item() for p in net.parameters()))
        clip = min(1.0, CLIP / (norm + 1e-6))
        with torch.no_grad():
            for p in net.parameters():
                p.sub_(RATE * length / LENGTH * (clip * p.grad + DECAY * p))
        losses.append(loss.item())
    return losses, gradients, {n: p.detach().double().clone() for n, p in net.named_parameters()}


def main():
    net = Awd().draw()
    losses, gradients, final = train(copy.deepcopy(net).double())
    runs = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        runs.append(train(copy.deepcopy(net)))
        with torch.backends.mkldnn.flags(enabled=False):
            runs.append(train(copy.deepcopy(net)))
    tensors = {"losses": torch.tensor(losses, dtype=torch.float32)}
    for prefix, which, references in (("gradient:", 1, gradients), ("final:", 2, final)):
        for key, reference in references.items():
            error = max(torch_models.relative_error(r[which][key], reference) for r in runs)
            tensors[prefix + key] = summary(key, reference, error)
    file = HERE / "fixtures" / "awd_lm.safetensors"
    save_file(tensors, file)
    file.chmod(0o644)
    print(f"{file.stat().st_size} bytes; losses {losses[0]:.4f} .. {losses[-1]:.4f}; PyTorch float32's own error of the "
          f"losses {max(abs(a - b) for r in runs for a, b in zip(r[0], losses)):.1e}")


if __name__ == "__main__":
    main()
