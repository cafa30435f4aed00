"""The PyTorch side of the parity tests: the same networks, at any width, with names equal to Penstock's."""

import contextlib
import copy
import math

import torch
import torchvision
from torch import nn

MODELS = ("lenet", "alexnet", "vgg11", "vgg16", "resnet18", "resnet50", "inception_v3", "vit_b_16")
MINIMUM_SIZE = {"lenet": 28, "alexnet": 64, "vgg11": 32, "vgg16": 32, "resnet18": 32, "resnet50": 32,
                "inception_v3": 75, "vit_b_16": 16}


def scaled(size, width):
    """A channel or hidden size at a width: a multiple of 8, at least 8, unless the width is 1."""
    return size if width == 1 else max(8, 8 * math.floor(size * width / 8 + 0.5))


class LeNet(nn.Module):
    def __init__(self, classes, width, image_size, channels):
        super().__init__()
        c1, c2, f1, f2 = (scaled(n, width) for n in (6, 16, 120, 84))
        side = (image_size // 2 - 4) // 2
        self.conv1 = nn.Conv2d(channels, c1, 5, padding=2)
        self.conv2 = nn.Conv2d(c1, c2, 5)
        self.fc1 = nn.Linear(c2 * side * side, f1)
        self.fc2 = nn.Linear(f1, f2)
        self.fc3 = nn.Linear(f2, classes)

    def forward(self, x):
        x = torch.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = torch.max_pool2d(torch.relu(self.conv2(x)), 2)
        x = torch.flatten(x, 1)
        x = torch.relu(self.fc1(x))
        x = torch.relu(self.fc2(x))
        return self.fc3(x)


def _replace(root, name, module):
    parent, _, leaf = name.rpartition(".")
    setattr(root.get_submodule(parent), leaf, module)


def _scale(net, pooled, classes, width, channels):
    """Rebuilds every layer that has parameters at another width; `pooled` pixels reach the first linear layer."""
    named = [(n, m) for n, m in net.named_modules() if isinstance(m, (nn.Conv2d, nn.BatchNorm2d, nn.Linear))]
    linears = [n for n, m in named if isinstance(m, nn.Linear)]
    for name, m in named:
        if isinstance(m, nn.Conv2d):
            inputs = channels if m.in_channels == 3 else scaled(m.in_channels, width)
            new = nn.Conv2d(inputs, scaled(m.out_channels, width), m.kernel_size, m.stride, m.padding, m.dilation,
                            bias=m.bias is not None)
        elif isinstance(m, nn.BatchNorm2d):
            new = nn.BatchNorm2d(scaled(m.num_features, width))
        else:
            first, last = name == linears[0], name == linears[-1]
            side = pooled if first else 1
            new = nn.Linear(scaled(m.in_features // side, width) * side,
                            classes if last else scaled(m.out_features, width))
        _replace(net, name, new)


def _scale_by_a_pass(net, image_size, classes, width, channels):
    """The same where concatenations add up channels: how many come in shows when an image passes."""
    for name, m in list(net.named_modules()):
        if isinstance(m, nn.Conv2d):
            _replace(net, name, nn.LazyConv2d(scaled(m.out_channels, width), m.kernel_size, m.stride, m.padding,
                                              bias=m.bias is not None))
        elif isinstance(m, nn.BatchNorm2d):
            _replace(net, name, nn.BatchNorm2d(scaled(m.num_features, width), eps=m.eps))
        elif isinstance(m, nn.Linear):
            lazy = nn.LazyLinear(classes)
            lazy.stddev = getattr(m, "stddev", 0.1)
            _replace(net, name, lazy)
    momenta = {m: m.momentum for m in net.modules() if isinstance(m, nn.BatchNorm2d)}
    for m in momenta:
        m.momentum = 0.0  # the pass leaves no trace
    net.train()(torch.zeros(2, channels, image_size, image_size))
    for m, momentum in momenta.items():
        m.momentum = momentum
        m.num_batches_tracked.zero_()


def _inception(classes, width, image_size, channels):
    net = torchvision.models.get_model("inception_v3", weights=None, num_classes=classes, init_weights=False,
                                       aux_logits=image_size >= 299)  # a smaller one does not fit the head
    if width != 1 or channels != 3:
        _scale_by_a_pass(net, image_size, classes, width, channels)
    for m in net.modules():  # as Inception3.__init__ does
        if isinstance(m, (nn.Conv2d, nn.Linear)):
            nn.init.trunc_normal_(m.weight, std=getattr(m, "stddev", 0.1), a=-2, b=2)
    return net


def _vit(classes, width, image_size, channels):
    heads = max(1, math.floor(12 * width + 0.5))
    net = torchvision.models.VisionTransformer(image_size=image_size, patch_size=16, num_layers=12, num_heads=heads,
                                               hidden_dim=64 * heads, mlp_dim=256 * heads, num_classes=classes)
    if channels != 3:
        net.conv_proj = nn.Conv2d(channels, 64 * heads, 16, 16)
    return net


def _initialise(net, linear_std):
    for m in net.modules():
        if isinstance(m, nn.Conv2d):
            nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            if m.bias is not None:
                nn.init.zeros_(m.bias)
        elif isinstance(m, nn.Linear) and linear_std:
            nn.init.normal_(m.weight, 0, linear_std)
            nn.init.zeros_(m.bias)


def _of_torchvision(name, classes, width, channels):
    net = torchvision.models.get_model(name, weights=None, num_classes=classes)
    if width != 1 or channels != 3:
        pooled = {"alexnet": 36, "vgg": 49}.get(name.rstrip("0123456789"), 1)
        _scale(net, pooled, classes, width, channels)
        if name != "alexnet":
            _initialise(net, 0.01 if name.startswith("vgg") else 0)
    return net


def build(name, classes=10, width=1.0, image_size=None, channels=None):
    """The network with dropout 0, in training mode."""
    if name == "lenet":
        return LeNet(classes, width, image_size or 28, channels or 1).train()
    if name == "inception_v3":
        net = _inception(classes, width, image_size or 299, channels or 3)
    elif name == "vit_b_16":
        net = _vit(classes, width, image_size or 224, channels or 3)
    else:
        net = _of_torchvision(name, classes, width, channels or 3)
    for m in net.modules():
        if isinstance(m, nn.Dropout):
            m.p = 0.0
    return net.train()


def loss_of(net, x, targets):
    """With the auxiliary head's, as Inception's paper weighs it, where the network has one."""
    outputs = net(x)
    if isinstance(outputs, torch.Tensor):
        return nn.functional.cross_entropy(outputs, targets)
    return (nn.functional.cross_entropy(outputs.logits, targets)
            + 0.4 * nn.functional.cross_entropy(outputs.aux_logits, targets))


def train(net, inputs, targets, batch, learning_rate, momentum, weight_decay=0.0):
    """SGD over the samples in order; returns the losses, the gradients of the first step and the final state."""
    dtype = next(net.parameters()).dtype
    optimizer = torch.optim.SGD(net.parameters(), lr=learning_rate, momentum=momentum, weight_decay=weight_decay)
    losses, gradients = [], {}
    for begin in range(0, len(targets), batch):
        x = inputs[begin:begin + batch].to(dtype)
        optimizer.zero_grad()
        loss = loss_of(net, x, targets[begin:begin + batch])
        loss.backward()
        if not gradients:
            gradients = {n: p.grad.detach().double().clone() for n, p in net.named_parameters()}
        optimizer.step()
        losses.append(loss.item())
    state = {n: t.detach().double().clone() for n, t in net.state_dict().items()}
    return losses, gradients, state


def float32_runs(net, inputs, targets, *rates):
    """`train` in the ways in which PyTorch computes in float32: default, channels_last, and without oneDNN.

    Rounding that opens or shuts a ReLU changes gradients far beyond rounding, so that one run alone may be lucky.
    """
    yield train(copy.deepcopy(net), inputs, targets, *rates)
    last = torch.channels_last
    yield train(copy.deepcopy(net).to(memory_format=last), inputs.to(memory_format=last), targets, *rates)
    with torch.backends.mkldnn.flags(enabled=False):
        yield train(copy.deepcopy(net), inputs, targets, *rates)


def relative_error(value, reference):
    """L2 norm of the difference over that of the reference; absolute where the reference is zero."""
    norm = torch.linalg.vector_norm(reference).item()
    return torch.linalg.vector_norm(value.double() - reference).item() / (norm or 1.0)


def whole_model_error(values, references):
    """The same over all tensors of `references` as if they were one."""
    difference = sum(torch.sum((values[n].double() - r) ** 2).item() for n, r in references.items())
    return math.sqrt(difference / (sum(torch.sum(r**2).item() for r in references.values()) or 1.0))
