"""Times training steps of image models beside PyTorch's, runs interleaved.

    python tools/bench_step.py --build build [--torch FOLDER] [--models resnet50 vgg16] [--threads 1 2] [--rounds 10]
    python tools/bench_step.py --models inception_v3 --batch 8 --image-size 299

FOLDER is where `pip install --target FOLDER torch torchvision` put PyTorch; leave it
out when the python that runs this has it. VGG-16 and ResNet-50 need PyTorch alone, other models torchvision. A step is forward, backward and SGD with momentum, in f32. PyTorch runs in its
default and in its channels_last layout, with its plain and its fused optimizer; the best of them counts.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time


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
    return network


def serve_torch(options):
    """One step for each line that comes in ("layout optimizer"), one line of JSON back."""
    if options.torch:
        sys.path.insert(0, options.torch)
    import torch
    torch.set_num_threads(options.serve_threads)
    runs = {}

    def prepare(layout, optimizer):
        torch.manual_seed(1)
        own = {"vgg16": vgg16, "resnet50": resnet50}.get(options.serve)
        network = (own(torch.nn) if own else of_torchvision(options.serve, torch)).train()
        x = torch.randn(options.batch, 3, options.image_size, options.image_size)
        if layout == "channels_last":
            network, x = network.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
        sgd = torch.optim.SGD(network.parameters(), lr=1e-3, momentum=0.9, fused=optimizer == "fused")
        return network, x, torch.arange(options.batch) * 37 % 1000, sgd

    for line in sys.stdin:
        network, x, labels, sgd = runs.setdefault(line, None) or prepare(*line.split())
        runs[line] = network, x, labels, sgd
        start, cpu = time.perf_counter(), time.process_time()
        sgd.zero_grad(set_to_none=True)
        outputs = network(x)
        parts = [(1, outputs)] if isinstance(outputs, torch.Tensor) else [(1, outputs.logits), (0.4, outputs.aux_logits)]
        loss = sum(weight * torch.nn.functional.cross_entropy(logits, labels) for weight, logits in parts)
        loss.backward()
        sgd.step()
        result = {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu, "loss": loss.item()}
        print(json.dumps(result), flush=True)


class Server:
    def __init__(self, command):
        environment = dict(os.environ, OMP_NUM_THREADS=str(os.cpu_count()))
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def step(self, line=""):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit("bench_step: a side ended early")
        return json.loads(answer)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure(options, model, threads, peak):
    geometry = ["--batch", str(options.batch), "--image-size", str(options.image_size)]
    ours = Server([os.path.join(options.build, "bin", "bench_step"), "--model", model, "--threads", str(threads), *geometry])
    theirs = Server([sys.executable, __file__, "--serve", model, "--serve-threads", str(threads), "--torch",
                     options.torch, *geometry])
    sides = {"penstock": lambda: ours.step()}
    for layout in options.layouts:
        for optimizer in options.optimizers:
            sides[f"torch {layout} {optimizer}"] = lambda line=f"{layout} {optimizer}": theirs.step(line)
    for step in sides.values():  # shapes become known, memory is taken
        step()
        step()
    found = {name: [] for name in sides}
    for _ in range(options.rounds):
        for name, step in sides.items():
            found[name].append(step())
    ours.close()
    theirs.close()
    pick = lambda name, key: statistics.median(r[key] for r in found[name])
    for name in sides:
        least = min(r["seconds"] for r in found[name])
        print(f"  {name:32s} median {pick(name, 'seconds') * 1e3:8.1f} ms  least {least * 1e3:8.1f}  "
              f"CPU {pick(name, 'cpu_seconds') * 1e3:8.1f}")
    best = min((n for n in sides if n != "penstock"), key=lambda n: pick(n, "seconds"))
    seconds = pick("penstock", "seconds")
    gflops = found["penstock"][0]["flops"] / seconds / 1e9
    share = statistics.median(r["library_seconds"] / r["seconds"] for r in found["penstock"])
    print(f"{model}, {threads} thread(s): ratio {seconds / pick(best, 'seconds'):.3f} to {best}; of the least times "
          f"{min(r['seconds'] for r in found['penstock']) / min(r['seconds'] for r in found[best]):.3f}; "
          f"{gflops:.0f} GFLOP/s of a peak of {peak:.0f} ({100 * gflops / peak:.0f}%); {100 * share:.1f}% inside oneDNN",
          flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="build folder with bin/bench_step")
    parser.add_argument("--torch", default="", help="folder that holds PyTorch")
    parser.add_argument("--models", nargs="+", default=["vgg16", "resnet50"])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--optimizers", nargs="+", default=["plain", "fused"], help="PyTorch's SGD: plain, fused")
    parser.add_argument("--layouts", nargs="+", default=["default", "channels_last"])
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--serve-threads", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve_torch(options)
    for threads in options.threads:
        peak = json.loads(subprocess.check_output([os.path.join(options.build, "bin", "bench_peak"), str(threads)]))
        for model in options.models:
            measure(options, model, threads, peak["gflops"])


if __name__ == "__main__":
    main()
