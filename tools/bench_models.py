"""PyTorch's side of tools/bench_step.py: models as eager PyTorch trains them, and in which ways it can.

A way is how the same mathematics may be asked for: a memory layout for images; for sequences who multiplies matrices.
`default` is what nn.Linear and nn.LSTM call, `onednn` sends products of linear layers to oneDNN (which this PyTorch does
for f32 only when told), `mkl` keeps oneDNN away from LSTMs. Attention is scaled_dot_product_attention throughout.
Models come without dropout; options.dropout leaves them their own, but for images.
"""
import contextlib

IMAGE_WAYS = ["default", "channels_last"]
SEQUENCE_WAYS = ["default", "onednn"]
RECURRENT_WAYS = ["default", "onednn", "mkl"]
OPTIMIZERS = ["plain", "fused"]
# Of those that are not trained by SGD with momentum; "sgd" has none.
OPTIMIZER_OF = {"bert": "adamw", "vit_b_16": "adamw", "gnmt8": "adam", "awd_lm": "sgd"}
WAYS_OF = {"bert": SEQUENCE_WAYS, "vit_b_16": SEQUENCE_WAYS, "gnmt8": RECURRENT_WAYS, "awd_lm": RECURRENT_WAYS}


def vgg16(nn):
    layers, channels = [], 3
    for c in [64, 64, "M", 128, 128, "M", 256, 256, 256, "M", 512, 512, 512, "M", 512, 512, 512, "M"]:
        if c == "M":
            layers.append(nn.MaxPool2d(2, 2))
        else:
            layers += [nn.Conv2d(channels, c, 3, padding=1), nn.ReLU(inplace=True)]
            channels = c
    head = [nn.AdaptiveAvgPool2d(7), nn.Flatten(), nn.Linear(25088, 4096), nn.ReLU(inplace=True),
            nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Linear(4096, 1000)]
    return nn.Sequential(*layers, *head)


def first_heavy(nn):
    """tools/bench_lag_model.cpp"""
    return nn.Sequential(nn.Flatten(), nn.Linear(3072, 2048), nn.ReLU(), nn.Linear(2048, 512), nn.ReLU(),
                         nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


def resnet50(nn):
    class Bottleneck(nn.Module):
        def __init__(self, inputs, width, stride):
            super().__init__()
            outputs = 4 * width
            self.conv1, self.bn1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
            self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
            self.conv3, self.bn3 = nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs)
            self.relu = nn.ReLU(inplace=True)
            self.downsample = None
            if stride != 1 or inputs != outputs:
                self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                                                nn.BatchNorm2d(outputs))

        def forward(self, x):
            y = self.relu(self.bn1(self.conv1(x)))
            y = self.relu(self.bn2(self.conv2(y)))
            y = self.bn3(self.conv3(y))
            y += x if self.downsample is None else self.downsample(x)
            return self.relu(y)

    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for width, blocks, stride in [(64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)]:
        for block in range(blocks):
            layers.append(Bottleneck(inputs, width, stride if block == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def of_torchvision(name, torch):
    """The model by its name there, without dropout."""
    import torchvision
    more = {"init_weights": False} if name == "inception_v3" else {}
    network = torchvision.models.get_model(name, weights=None, **more)
    for module in network.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if isinstance(module, torch.nn.MultiheadAttention):
            module.dropout = 0.0
    return network


def images(torch, options, way):
    """The network, and its loss as a function."""
    own = {"vgg16": vgg16, "resnet50": resnet50}.get(options.serve)
    network = (own(torch.nn) if own else of_torchvision(options.serve, torch)).train()
    x = torch.randn(options.batch, 3, options.image_size, options.image_size)
    if way == "channels_last":
        network, x = network.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    labels = torch.arange(options.batch) * 37 % 1000

    def loss():
        outputs = network(x)
        parts = [(1, outputs)] if isinstance(outputs, torch.Tensor) else [(1, outputs.logits), (0.4, outputs.aux_logits)]
        return sum(weight * torch.nn.functional.cross_entropy(logits, labels) for weight, logits in parts)

    return network, loss


def bert(torch, options, _):
    import transformers
    rate = 0.1 if options.dropout else 0.0
    config = transformers.BertConfig(num_labels=options.classes, hidden_dropout_prob=rate,
                                     attention_probs_dropout_prob=rate, attn_implementation="sdpa")
    network = transformers.BertForSequenceClassification(config).train()
    ids = torch.randint(1, config.vocab_size, (options.batch, options.length))
    labels = torch.arange(options.batch) % options.classes
    return network, lambda: network(input_ids=ids, attention_mask=torch.ones_like(ids), labels=labels).loss


def gnmt8(torch, options, _):
    """MLPerf's modules with PipeDream's untied tables, time first, attention as published."""
    nn, hidden, vocabulary = torch.nn, 1024, 32320
    drop = nn.Dropout(0.2 if options.dropout else 0.0)  # between LSTMs, of the attention's context never

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k = nn.Linear(hidden, hidden, False), nn.Linear(hidden, hidden, False)
            self.u, self.b = nn.Parameter(torch.randn(hidden) / 32), nn.Parameter(torch.zeros(hidden))
            self.g = nn.Parameter(torch.tensor([1 / 32]))

        def forward(self, query, keys):
            query, keys = query.transpose(0, 1), keys.transpose(0, 1)
            energy = torch.tanh(self.q(query)[:, :, None] + self.k(keys)[:, None] + self.b)
            scores = torch.matmul(energy, self.g * self.u / self.u.norm())
            return (torch.softmax(scores, -1) @ keys).transpose(0, 1)

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.source, self.target = (nn.Embedding(vocabulary, hidden, padding_idx=0) for _ in range(2))
            self.encoder = nn.ModuleList([nn.LSTM(hidden, hidden, bidirectional=True), nn.LSTM(2 * hidden, hidden),
                                          nn.LSTM(hidden, hidden), nn.LSTM(hidden, hidden)])
            self.first, self.attention = nn.LSTM(hidden, hidden), Attention()
            self.decoder = nn.ModuleList([nn.LSTM(2 * hidden, hidden) for _ in range(3)])
            self.classifier = nn.Linear(hidden, vocabulary)

        def forward(self, source, target):
            x = self.source(source)
            for number, layer in enumerate(self.encoder):
                y = layer(drop(x) if number else x)[0]
                x = y + x if number >= 2 else y
            y = self.first(self.target(target))[0]
            context = self.attention(y, x)
            for number, layer in enumerate(self.decoder):
                z = layer(torch.cat((drop(y), context), 2))[0]
                y = z + y if number >= 1 else z
            return self.classifier(y)

    network = Network().train()
    source, target, labels = (torch.randint(4, vocabulary, (options.length, options.batch)) for _ in range(3))

    def loss():
        logits = network(source, target).view(-1, vocabulary)
        words = torch.nn.functional.cross_entropy(logits, labels.view(-1), ignore_index=0, label_smoothing=0.1,
                                                  reduction="sum")
        return words / options.batch

    return network, loss


def awd_lm(torch, options, _):
    """Three layers with the sizes and penalties of the published model, its state carried on, dropout at its rates."""
    nn, vocabulary, drops = torch.nn, 10000, options.dropout

    class Lstm(nn.LSTM):
        def forward(self, x, state):
            weights = list(self._flat_weights)
            if drops:
                weights[1] = nn.functional.dropout(weights[1], 0.5)
            y, h, c = torch._VF.lstm(x, state, weights, True, 1, 0.0, True, False, False)
            return y, (h.detach(), c.detach())

    def locked(x, rate):
        if not drops:
            return x
        mask = torch.empty(1, *x.shape[1:]).bernoulli_(1 - rate) / (1 - rate)
        return x * mask

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            sizes = [400, 1150, 1150, 400]
            self.encoder = nn.Embedding(vocabulary, 400)
            self.rnns = nn.ModuleList([Lstm(i, o) for i, o in zip(sizes, sizes[1:])])
            self.bias = nn.Parameter(torch.zeros(vocabulary))
            self.states = [tuple(torch.zeros(1, options.batch, o) for _ in range(2)) for o in sizes[1:]]

        def forward(self, ids):
            table = self.encoder.weight
            if drops:
                table = table * (torch.empty(vocabulary, 1).bernoulli_(0.9) / 0.9)
            x = locked(nn.functional.embedding(ids, table), 0.4)
            for number, rnn in enumerate(self.rnns):
                raw, self.states[number] = rnn(x, self.states[number])
                x = locked(raw, 0.25 if number < 2 else 0.4)
            return raw, x, nn.functional.linear(x, self.encoder.weight, self.bias)

    network = Network().train()
    ids, labels = (torch.randint(0, vocabulary, (options.length, options.batch)) for _ in range(2))

    def loss():
        raw, dropped, logits = network(ids)
        words = nn.functional.cross_entropy(logits.view(-1, vocabulary), labels.view(-1))
        return words + 2 * dropped.pow(2).mean() + (raw[1:] - raw[:-1]).pow(2).mean()

    return network, loss


def linear_by_onednn(torch):
    """nn.functional.linear whose three products oneDNN computes."""
    multiply = torch.ops.mkldnn._linear_pointwise

    class Linear(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight, bias):
            ctx.save_for_backward(x, weight)
            ctx.has_bias = bias is not None
            return multiply(x, weight, bias, "none", [], "")

        @staticmethod
        def backward(ctx, dy):
            x, weight = ctx.saved_tensors
            rows, dx = dy.reshape(-1, dy.shape[-1]), None
            if ctx.needs_input_grad[0]:
                dx = multiply(rows, weight.t(), None, "none", [], "").view(x.shape)
            dw = multiply(rows.t(), x.reshape(-1, x.shape[-1]).t(), None, "none", [], "")
            return dx, dw, rows.sum(0) if ctx.has_bias else None

    return lambda x, weight, bias=None: Linear.apply(x, weight, bias)


def optimizer_of(torch, name, parameters, optimizer):
    fused = {"fused": True} if optimizer == "fused" else {"fused": False}
    if name in ("adam", "adamw"):
        kind = torch.optim.AdamW if name == "adamw" else torch.optim.Adam
        return kind(parameters, lr=1e-3, weight_decay=0.01 if name == "adamw" else 0.0, **fused)
    return torch.optim.SGD(parameters, lr=1e-3, momentum=0.0 if name == "sgd" else 0.9, **fused)


def step_of(torch, options, way, optimizer):
    """A function that trains for one step and returns the loss."""
    torch.manual_seed(1)
    make = {"bert": bert, "gnmt8": gnmt8, "awd_lm": awd_lm}.get(options.serve, images)
    network, loss = make(torch, options, way)
    update = optimizer_of(torch, OPTIMIZER_OF.get(options.serve, "momentum"), network.parameters(), optimizer)
    usual, by_onednn = torch.nn.functional.linear, linear_by_onednn(torch)

    def step():
        torch.nn.functional.linear = by_onednn if way == "onednn" else usual
        with torch.backends.mkldnn.flags(enabled=False) if way == "mkl" else contextlib.nullcontext():
            update.zero_grad(set_to_none=True)
            found = loss()
            found.backward()
        update.step()
        torch.nn.functional.linear = usual
        return found.item()

    return step


PARTS = ("products", "attention", "lstm", "rest")
OPERATIONS = {"attention": ("scaled_dot_product",), "lstm": ("mkldnn_rnn_layer",),
              "products": ("addmm", "aten::mm", "bmm", "mkldnn::_linear", "convolution_backward", "mkldnn_convolution")}


def seconds_by_part(torch, step):
    """What operations take by themselves, each its least of five steps, added up by part."""
    least = {}
    for _ in range(5):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            step()
        for entry in profile.key_averages():
            seconds = entry.self_cpu_time_total * 1e-6
            least[entry.key] = min(seconds, least.get(entry.key, seconds))
    parts = dict.fromkeys(PARTS, 0.0)
    for name, seconds in least.items():
        parts[next((p for p, known in OPERATIONS.items() if any(k in name for k in known)), "rest")] += seconds
    return parts
