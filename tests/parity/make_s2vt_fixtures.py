"""Writes the fixture of s2vt_parity_test.cpp: a narrow S2VT, one gradient and ten steps of SGD by PyTorch in float64.

Run where PyTorch and safetensors are installed: python tests/parity/make_s2vt_fixtures.py
What is stored of a tensor is as in make_fixtures.py; weights and data are drawn from (SEED, name) by both sides. Every
minibatch has an unrolling of its own length, every clip its frames and words, some no word. The LSTM is written out, as
Caffe has it: gates i, f, o, g, one bias, a factor of h and c at each step. The loss is 20 times the mean over the
minibatch's words; the two linear layers' biases learn at twice the rate.
"""

import copy
import math
import pathlib

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

import generator
import torch_models
from make_fixtures import SEED, STEPS, summary
from make_gnmt_fixtures import whole

HERE = pathlib.Path(__file__).resolve().parent
BATCH, VOCABULARY, TIME, FRAME, LINEAR, HIDDEN = 5, 23, 9, 6, 8, 16
RATE, MOMENTUM, WEIGHT = float(np.float32(0.01)), float(np.float32(0.9)), 20


def time_of(step):
    return 6 + step % 4


class Lstm(nn.Module):
    def __init__(self, inputs):
        super().__init__()
        self.weight_xc = nn.Parameter(torch.empty(4 * HIDDEN, inputs))
        self.weight_hc = nn.Parameter(torch.empty(4 * HIDDEN, HIDDEN))
        self.bias_c = nn.Parameter(torch.empty(4 * HIDDEN))

    def forward(self, x, continues):
        h = c = x.new_zeros(x.shape[0], HIDDEN)
        out = []
        for t in range(x.shape[1]):
            h, c = h * continues[:, t, None], c * continues[:, t, None]
            i, f, o, g = (x[:, t] @ self.weight_xc.T + h @ self.weight_hc.T + self.bias_c).chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            out.append(h)
        return torch.stack(out, 1)


class S2vt(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc_frame = nn.Linear(FRAME, LINEAR)
        self.lstm1 = Lstm(LINEAR)
        self.embed = nn.Embedding(VOCABULARY, LINEAR)
        self.lstm2 = Lstm(HIDDEN + LINEAR + 1)
        self.predict = nn.Linear(HIDDEN, VOCABULARY)

    def forward(self, b):
        read = self.lstm1(self.fc_frame(b["frames"]), b["continues"])
        both = torch.cat((read, self.embed(b["words"]), b["stage"][:, :, None]), 2)
        return self.predict(self.lstm2(both, b["continues"]))


def draw_weights(net):
    with torch.no_grad():
        for key, value in net.named_parameters():
            if "bias" in key:
                value.fill_(0.2 if key == "fc_frame.bias" else 0)
            else:
                bound = math.sqrt(3 / FRAME) if key == "fc_frame.weight" else 0.08
                value.copy_(torch.from_numpy(generator.uniform(SEED, key, tuple(value.shape), bound)))


def draw_data(real):
    n = STEPS * BATCH
    times = np.repeat([time_of(s) for s in range(STEPS)], BATCH)
    read = 1 + whole("clip_frames", times - 1, (n,))
    end = read + whole("clip_words", times - read.numpy() + 1, (n,))
    t = torch.arange(TIME)[None]
    writes = (t >= read[:, None]) & (t < end[:, None])
    every = np.array([VOCABULARY])
    frames = whole("frames", np.array([1 << 16]), (n, TIME, FRAME)).to(real) / (1 << 15) - 1
    return {"frames": frames * (t < read[:, None])[:, :, None],
            "words": whole("words", every, (n, TIME)) * writes,
            "labels": whole("labels", every, (n, TIME)).masked_fill(~writes, -1),
            "stage": writes.to(real),
            "continues": ((t > 0) & (t < end[:, None])).to(real)}


def train(net):
    data = draw_data(next(net.parameters()).dtype)
    buffers = {}
    losses, gradients = [], {}
    for step in range(STEPS):
        net.zero_grad()
        b = {k: v[step * BATCH:(step + 1) * BATCH, :time_of(step)] for k, v in data.items()}
        loss = WEIGHT * nn.functional.cross_entropy(net(b).flatten(0, 1), b["labels"].flatten(), ignore_index=-1)
        loss.backward()
        if not gradients:
            gradients = {n: p.grad.detach().double().clone() for n, p in net.named_parameters()}
        with torch.no_grad():
            for n, p in net.named_parameters():
                buffers[n] = p.grad.clone() if n not in buffers else buffers[n] * MOMENTUM + p.grad
                p.sub_((2 * RATE if n in ("fc_frame.bias", "predict.bias") else RATE) * buffers[n])
        losses.append(loss.item())
    return losses, gradients, {n: p.detach().double().clone() for n, p in net.named_parameters()}


def main():
    net = S2vt()
    draw_weights(net)
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
    file = HERE / "fixtures" / "s2vt.safetensors"
    save_file(tensors, file)
    file.chmod(0o644)
    print(f"s2vt: {file.stat().st_size} bytes; losses {losses[0]:.4f} .. {losses[-1]:.4f}; PyTorch float32's own error "
          f"of the losses {max(abs(a - b) for r in runs for a, b in zip(r[0], losses)):.1e}")


if __name__ == "__main__":
    main()
