#!/usr/bin/env python3
"""Makes fixtures/: narrow GNMTs, and what PyTorch in float64 translates with them, by itself and by beam search.

    tests/translation/make_fixtures.py        (torch, safetensors)

Every hypothesis is computed anew from its first token, sentence by sentence, without padding: nothing that an
incremental, batched decoder could get wrong is shared. Decisions are further apart than float32 could bring them.
"""

import json
import math
import os

import torch
from safetensors.torch import save_file

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures")
BOS, EOS = 2, 3
LIMIT = 14
LEAST_MARGIN = 2e-4


def lstm(inputs, hidden, bidirectional=False):
    return torch.nn.LSTM(inputs, hidden, batch_first=True, bidirectional=bidirectional)


class Gnmt(torch.nn.Module):
    def __init__(self, layers, hidden, vocabulary, tied):
        super().__init__()
        n, h = layers, hidden
        self.encoder_table = torch.nn.Embedding(vocabulary, h)
        self.decoder_table = self.encoder_table if tied else torch.nn.Embedding(vocabulary, h)
        self.encoder = torch.nn.ModuleList(
            [lstm(h, h, True), lstm(2 * h, h)] + [lstm(h, h) for _ in range(n - 2)])
        self.attending = lstm(h, h)
        self.decoder = torch.nn.ModuleList([lstm(2 * h, h) for _ in range(n - 1)])
        self.query, self.key = torch.nn.Linear(h, h, bias=False), torch.nn.Linear(h, h, bias=False)
        self.vector = torch.nn.Parameter(torch.empty(h))
        self.scalar = torch.nn.Parameter(torch.empty(1))
        self.bias = torch.nn.Parameter(torch.empty(h))
        self.classifier = torch.nn.Linear(h, vocabulary)

    def encode(self, source):
        x = self.encoder_table(source[None])
        for i, layer in enumerate(self.encoder):
            y = layer(x)[0]
            x = y + x if i > 1 else y
        return x

    def logits(self, encoded, target):
        """Of what follows each token of `target`, and attention (T, S)."""
        x = self.attending(self.decoder_table(target[None]))[0]
        pairs = torch.tanh(self.query(x)[:, :, None] + self.key(encoded)[:, None] + self.bias)
        scores = pairs @ (self.scalar * self.vector / self.vector.norm())
        attention = torch.softmax(scores, -1)
        context = attention @ encoded
        for i, layer in enumerate(self.decoder):
            y = layer(torch.cat([x, context], -1))[0]
            x = y + x if i > 0 else y
        return self.classifier(x)[0], attention[0]

    def named(self):
        """By MLPerf's names."""
        tensors = {"encoder.embedder.weight": self.encoder_table.weight}
        if self.decoder_table is not self.encoder_table:
            tensors["decoder.embedder.weight"] = self.decoder_table.weight
        modules = {f"encoder.rnn_layers.{i}": m for i, m in enumerate(self.encoder)}
        modules["decoder.att_rnn.rnn"] = self.attending
        modules.update({f"decoder.rnn_layers.{i}": m for i, m in enumerate(self.decoder)})
        modules["decoder.att_rnn.attn.linear_q"] = self.query
        modules["decoder.att_rnn.attn.linear_k"] = self.key
        modules["decoder.classifier.classifier"] = self.classifier
        for name, module in modules.items():
            tensors.update({f"{name}.{p}": value for p, value in module.named_parameters()})
        attention = "decoder.att_rnn.attn."
        tensors.update({attention + "linear_att": self.vector, attention + "normalize_scalar": self.scalar,
                        attention + "normalize_bias": self.bias})
        return tensors


def next_of(net, encoded, tokens):
    logits, attention = net.logits(encoded, torch.tensor([BOS] + tokens))
    return torch.log_softmax(logits[-1], -1), attention


def wide(margin):
    if margin < LEAST_MARGIN:
        raise ValueError(f"a decision by {margin}")


def greedy(net, source):
    encoded, tokens = net.encode(source), []
    while len(tokens) < LIMIT and tokens[-1:] != [EOS]:
        best = torch.topk(next_of(net, encoded, tokens)[0], 2)
        wide((best.values[0] - best.values[1]).item())
        tokens.append(best.indices[0].item())
    return tokens


def score(net, encoded, tokens, log_probability):
    attention = next_of(net, encoded, tokens[:-1])[1]  # of the steps that wrote the tokens
    covered = torch.log(torch.clamp(attention.sum(0), max=1)).sum().item()
    return log_probability / ((5 + len(tokens)) / 6) ** 0.6 + 0.1 * covered


def beam_search(net, source, beam):
    encoded = net.encode(source)
    hypotheses = [([], 0.0)]
    for _ in range(LIMIT):
        found = []
        for tokens, so_far in hypotheses:
            if tokens[-1:] == [EOS]:
                found.append((tokens, so_far))
                continue
            log_p = next_of(net, encoded, tokens)[0]
            found += [(tokens + [t], so_far + log_p[t].item()) for t in range(len(log_p))]
        found.sort(key=lambda h: -h[1])
        wide(found[beam - 1][1] - found[beam][1])
        hypotheses = found[:beam]
        if all(tokens[-1] == EOS for tokens, _ in hypotheses):
            break
    scored = sorted(((score(net, encoded, *h), h[0]) for h in hypotheses), reverse=True)
    if beam > 1:
        wide(scored[0][0] - scored[1][0])
    return scored[0]


def initialise(net, seed, scale, sharpness, eos):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(((torch.rand(p.shape, generator=generator, dtype=torch.float64) * 2 - 1) * scale).float())
        net.classifier.weight.mul_(sharpness)
        net.classifier.bias[EOS] = eos
        # What the file holds is float32; the arithmetic is not.
        for p in net.parameters():
            p.copy_(p.float().double())


def translations(net, seed, vocabulary):
    generator = torch.Generator().manual_seed(seed)
    cases = []
    while len(cases) < 9:
        length = 1 + int(torch.randint(12, (), generator=generator))
        words = torch.randint(4, vocabulary, (length,), generator=generator).tolist()
        source = torch.tensor([BOS] + words + [EOS])
        try:
            case = {"source": source.tolist(), "greedy": greedy(net, source)}
            for beam in (1, 2, 5):
                value, tokens = beam_search(net, source, beam)
                case[f"beam{beam}"] = {"tokens": tokens, "score": value}
        except ValueError:
            continue
        at_limit = sum(len(c["beam5"]["tokens"]) == LIMIT for c in cases)
        if len(case["beam5"]["tokens"]) < LIMIT or at_limit < 4:
            cases.append(case)
    return cases


def make(name, layers, hidden, vocabulary, tied, seed, values):
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    net = Gnmt(layers, hidden, vocabulary, tied)
    initialise(net, seed, *values)
    with torch.no_grad():
        cases = translations(net, seed, vocabulary)
    save_file({k: v.detach().float().contiguous() for k, v in net.named().items()},
              os.path.join(FOLDER, name + ".safetensors"))
    facts = {"layers": layers, "hidden": hidden, "vocabulary": vocabulary, "tied": tied, "limit": LIMIT}
    with open(os.path.join(FOLDER, name + ".json"), "w", encoding="ascii") as out:
        out.write(json.dumps({**facts, "cases": cases}, separators=(",", ":")).replace('{"source"', '\n{"source"') + "\n")
    lengths = [[len(c["greedy"]), len(c["beam5"]["tokens"])] for c in cases]
    differ = sum(c["greedy"] != c["beam5"]["tokens"] for c in cases)
    print(name, "greedy and beam lengths", lengths, "differ in", differ)


if __name__ == "__main__":
    make("untied", 4, 8, 19, False, 3, (1.1, 1.5, 0.8))
    make("tied", 3, 16, 23, True, 2, (1.3, 2, 0.6))
