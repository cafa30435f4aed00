"""GNMT in PyTorch, with the names of MLPerf's implementation: what tools/train_real/gnmt_bible is held against."""

import math

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

PAD, BEGIN, END = 0, 2, 3


class Attention(nn.Module):
    """Normalised additive: a score is v.tanh(W_q q + W_k k + b), with v = g u/|u|."""

    def __init__(self, width):
        super().__init__()
        self.linear_q = nn.Linear(width, width, bias=False)
        self.linear_k = nn.Linear(width, width, bias=False)
        self.linear_att = nn.Parameter(torch.empty(width).uniform_(-0.1, 0.1))
        self.normalize_scalar = nn.Parameter(torch.full((1,), 1 / math.sqrt(width)))
        self.normalize_bias = nn.Parameter(torch.zeros(width))

    def forward(self, query, keys, lengths):
        v = self.linear_att / self.linear_att.norm() * self.normalize_scalar
        pairs = self.linear_q(query).unsqueeze(2) + self.linear_k(keys).unsqueeze(1) + self.normalize_bias
        scores = torch.tanh(pairs) @ v
        away = torch.arange(keys.shape[1])[None, None, :] >= lengths[:, None, None]
        return functional.softmax(scores.masked_fill(away, -65504.0), -1) @ keys


class Encoder(nn.Module):
    def __init__(self, vocabulary, width, layers, dropout):
        super().__init__()
        self.embedder = nn.Embedding(vocabulary, width, padding_idx=PAD)
        sizes = [width, 2 * width] + [width] * (layers - 2)
        self.rnn_layers = nn.ModuleList(nn.LSTM(size, width, batch_first=True, bidirectional=n == 0)
                                        for n, size in enumerate(sizes))
        self.dropout = dropout

    def forward(self, ids, lengths):
        x = self.embedder(ids)
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        x = pad_packed_sequence(self.rnn_layers[0](packed)[0], batch_first=True, total_length=ids.shape[1])[0]
        for n, rnn in enumerate(self.rnn_layers[1:], 1):
            y = rnn(functional.dropout(x, self.dropout, self.training))[0]
            x = y + x if n >= 2 else y
        return x


class FirstLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.rnn = nn.LSTM(width, width, batch_first=True)
        self.attn = Attention(width)


class Head(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.classifier = nn.Linear(width, vocabulary)


class Decoder(nn.Module):
    def __init__(self, vocabulary, width, layers, dropout):
        super().__init__()
        self.embedder = nn.Embedding(vocabulary, width, padding_idx=PAD)
        self.att_rnn = FirstLayer(width)
        self.rnn_layers = nn.ModuleList(nn.LSTM(2 * width, width, batch_first=True) for _ in range(layers - 1))
        self.classifier = Head(vocabulary, width)
        self.dropout = dropout

    def forward(self, ids, keys, lengths, states=None):
        """Logits [B, T, V] and the states after the last token."""
        states = states or [None] * (1 + len(self.rnn_layers))
        x, after = self.att_rnn.rnn(self.embedder(ids), states[0])
        context, kept = self.att_rnn.attn(x, keys, lengths), [after]
        for n, rnn in enumerate(self.rnn_layers):
            y, after = rnn(torch.cat([functional.dropout(x, self.dropout, self.training), context], -1), states[n + 1])
            kept.append(after)
            x = y + x if n >= 1 else y
        return self.classifier.classifier(x), kept


class Gnmt(nn.Module):
    def __init__(self, vocabulary, width, layers, dropout=0.0):
        super().__init__()
        self.encoder = Encoder(vocabulary, width, layers, dropout)
        self.decoder = Decoder(vocabulary, width, layers, dropout)

    def loss(self, batch, smoothing):
        """Summed over tokens, and the tokens that count."""
        keys = self.encoder(batch["source"], batch["source_lengths"])
        logits, _ = self.decoder(batch["target"], keys, batch["source_lengths"])
        wanted = batch["labels"]
        logs = functional.log_softmax(logits, -1)
        nll = -logs.gather(-1, wanted.clamp(min=0).unsqueeze(-1)).squeeze(-1)
        each = (1 - smoothing) * nll - smoothing * logs.mean(-1)
        counts = wanted > PAD
        return each[counts].sum(), int(counts.sum())

    @torch.no_grad()
    def translate(self, ids, lengths, most):
        """Greedily: a list of ids for each row, without the end."""
        self.eval()
        keys, states = self.encoder(ids, lengths), None
        last = torch.full((len(ids), 1), BEGIN)
        done = torch.zeros(len(ids), dtype=torch.bool)
        said = [[] for _ in range(len(ids))]
        for _ in range(most):
            logits, states = self.decoder(last, keys, lengths, states)
            last = logits[:, -1].argmax(-1, keepdim=True)
            for row, token in enumerate(last[:, 0].tolist()):
                done[row] |= token == END
                if not done[row]:
                    said[row].append(token)
            if done.all():
                break
        return said
