"""AWD LSTM's modules in PyTorch, with the names of its published program: as far as a file of weights needs them."""

from torch import nn


class DroppedWeights(nn.Module):
    """An LSTM whose hidden-to-hidden weights are kept undropped, as `weight_hh_l0_raw`."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.module = nn.LSTM(inputs, outputs)
        raw = self.module.weight_hh_l0
        del self.module._parameters["weight_hh_l0"]
        self.module.register_parameter("weight_hh_l0_raw", raw)


class AwdLm(nn.Module):
    def __init__(self, vocabulary, embedding, hidden, layers):
        super().__init__()
        sizes = [embedding] + [hidden] * (layers - 1) + [embedding]
        self.encoder = nn.Embedding(vocabulary, embedding)
        self.rnns = nn.ModuleList(DroppedWeights(a, b) for a, b in zip(sizes, sizes[1:]))
        self.decoder = nn.Linear(embedding, vocabulary)
        self.decoder.weight = self.encoder.weight
