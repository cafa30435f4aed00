"""Writes the fixtures of gnmt_parity_test.cpp: a narrow GNMT, one gradient and ten Adam steps by PyTorch in float64.

Run where PyTorch and safetensors are installed: python tests/parity/make_gnmt_fixtures.py
What is stored of a tensor is as in make_fixtures.py; weights and data are drawn from (SEED, name) by both sides. Every
minibatch has lengths of its own, source and target; some sentences have no token that counts. The loss is divided by
sentences. The first layer reads packed sequences, so that what pads a batch cannot matter here.
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

HERE = pathlib.Path(__file__).resolve().parent
BATCH, LAYERS, HIDDEN, VOCABULARY, SMOOTHING = 5, 3, 16, 23, 0.1
SOURCE, TARGET = 7, 7  # at most
RATE, BETA1, BETA2, EPSILON = (float(np.float32(x)) for x in (1e-3, 0.9, 0.999, 1e-8))


def times_of(step):
    return 4 + step % 4, 3 + 2 * step % 5


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear_q = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.linear_k = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.linear_att = nn.Parameter(torch.empty(HIDDEN))
        self.normalize_scalar = nn.Parameter(torch.empty(1))
        self.normalize_bias = nn.Parameter(torch.empty(HIDDEN))

    def forward(self, query, keys, lengths):
        both = self.linear_q(query)[:, :, None] + self.linear_k(keys)[:, None] + self.normalize_bias
        direction = self.normalize_scalar * self.linear_att / self.linear_att.norm()
        scores = torch.tanh(both) @ direction
        outside = torch.arange(keys.shape[1])[None, None] >= lengths[:, None, None]
        return torch.softmax(scores.masked_fill(outside, -65504.0), -1) @ keys


def lstm(inputs, **more):
    return nn.LSTM(inputs, HIDDEN, batch_first=True, **more)


class Gnmt(nn.Module):
    def __init__(self, tied):
        super().__init__()
        self.encoder, self.decoder = nn.Module(), nn.Module()
        self.encoder.embedder = nn.Embedding(VOCABULARY, HIDDEN, padding_idx=0)
        self.encoder.rnn_layers = nn.ModuleList(
            [lstm(HIDDEN, bidirectional=True), lstm(2 * HIDDEN)] + [lstm(HIDDEN) for _ in range(LAYERS - 2)])
        self.decoder.embedder = self.encoder.embedder if tied else nn.Embedding(VOCABULARY, HIDDEN, padding_idx=0)
        self.decoder.att_rnn = nn.Module()
        self.decoder.att_rnn.rnn = lstm(HIDDEN)
        self.decoder.att_rnn.attn = Attention()
        self.decoder.rnn_layers = nn.ModuleList(lstm(2 * HIDDEN) for _ in range(LAYERS - 1))
        self.decoder.classifier = nn.Module()
        self.decoder.classifier.classifier = nn.Linear(HIDDEN, VOCABULARY)

    def forward(self, source, lengths, target):
        packed = nn.utils.rnn.pack_padded_sequence(self.encoder.embedder(source), lengths, True, enforce_sorted=False)
        x = nn.utils.rnn.pad_packed_sequence(self.encoder.rnn_layers[0](packed)[0], True,
                                             total_length=source.shape[1])[0]
        x = self.encoder.rnn_layers[1](x)[0]
        for layer in self.encoder.rnn_layers[2:]:
            x = layer(x)[0] + x
        encoded = x
        x = self.decoder.att_rnn.rnn(self.decoder.embedder(target))[0]
        context = self.decoder.att_rnn.attn(x, encoded, lengths)
        for i, layer in enumerate(self.decoder.rnn_layers):
            y = layer(torch.cat((x, context), 2))[0]
            x = y + x if i > 0 else y
        return self.decoder.classifier.classifier(x)


def draw_weights(net, tied):
    root = 1 / math.sqrt(HIDDEN)
    with torch.no_grad():
        for key, value in net.named_parameters():
            shape = tuple(value.shape)
            if key.endswith("normalize_scalar"):
                value.fill_(root)
            elif key.endswith("normalize_bias") or (tied and "bias_hh" in key):
                value.zero_()
            elif key.endswith("embedder.weight") and not tied:
                value.copy_(torch.from_numpy(generator.normal(SEED, key, shape, 1.0)))
            else:
                value.copy_(torch.from_numpy(generator.uniform(SEED, key, shape, 0.1 if tied else root)))
            if key.endswith("embedder.weight"):
                value[0] = 0


def whole(name, below, dims):
    words = generator.words(SEED, name, int(np.prod(dims)))
    return torch.from_numpy((words % below.astype(np.uint64)).astype(np.int64)).view(dims)


def draw_data():
    n = STEPS * BATCH
    sources, targets = (np.repeat([times_of(s)[i] for s in range(STEPS)], BATCH) for i in (0, 1))
    lengths = 1 + whole("source_lengths", sources, (n,))
    counted = whole("target_lengths", targets + 1, (n,))
    every = np.array([VOCABULARY - 1])
    source = (1 + whole("source", every, (n, SOURCE))) * (torch.arange(SOURCE)[None] < lengths[:, None])
    inside = torch.arange(TARGET)[None] < counted[:, None]
    return {"source": source, "source_lengths": lengths,
            "target_in": (1 + whole("target_in", every, (n, TARGET))) * inside,
            "labels": (1 + whole("labels", every, (n, TARGET))) * inside}


def loss_of(net, b, step):
    source_time, target_time = times_of(step)
    logits = net(b["source"][:, :source_time], b["source_lengths"], b["target_in"][:, :target_time])
    logs = torch.log_softmax(logits, -1)
    labels = b["labels"][:, :target_time]
    likelihood = -logs.gather(2, labels[:, :, None])[:, :, 0]
    each = (1 - SMOOTHING) * likelihood - SMOOTHING * logs.mean(-1)
    return (each * (labels != 0)).sum() / BATCH


def train(net, data):
    moments = {n: (torch.zeros_like(p), torch.zeros_like(p)) for n, p in net.named_parameters()}
    losses, gradients = [], {}
    for step in range(STEPS):
        net.zero_grad()
        rows = slice(step * BATCH, (step + 1) * BATCH)
        loss = loss_of(net, {k: v[rows] for k, v in data.items()}, step)
        loss.backward()
        if not gradients:
            gradients = {n: p.grad.detach().double().clone() for n, p in net.named_parameters()}
        with torch.no_grad():
            for n, p in net.named_parameters():
                m, v = moments[n]
                m.mul_(BETA1).add_(p.grad, alpha=1 - BETA1)
                v.mul_(BETA2).add_(p.grad**2, alpha=1 - BETA2)
                mean, square = m / (1 - BETA1 ** (step + 1)), v / (1 - BETA2 ** (step + 1))
                p.sub_(RATE * mean / (square.sqrt() + EPSILON))
        losses.append(loss.item())
    return losses, gradients, {n: p.detach().double().clone() for n, p in net.named_parameters()}


def main():
    data = draw_data()
    for name, tied in (("gnmt", False), ("gnmt_tied", True)):
        net = Gnmt(tied).train()
        draw_weights(net, tied)
        losses, gradients, final = train(copy.deepcopy(net).double(), data)
        runs = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            runs.append(train(copy.deepcopy(net), data))
            with torch.backends.mkldnn.flags(enabled=False):
                runs.append(train(copy.deepcopy(net), data))
        tensors = {"losses": torch.tensor(losses, dtype=torch.float32)}
        for prefix, which, references in (("gradient:", 1, gradients), ("final:", 2, final)):
            for key, reference in references.items():
                error = max(torch_models.relative_error(r[which][key], reference) for r in runs)
                tensors[prefix + key] = summary(key, reference, error)
        file = HERE / "fixtures" / f"{name}.safetensors"
        save_file(tensors, file)
        file.chmod(0o644)
        print(f"{name}: {file.stat().st_size} bytes; losses {losses[0]:.4f} .. {losses[-1]:.4f}; PyTorch float32's own "
              f"error of the losses {max(abs(a - b) for r in runs for a, b in zip(r[0], losses)):.1e}")


if __name__ == "__main__":
    main()
