"""Times training steps of whole models beside PyTorch's, steps alternated.

    python tools/bench_step.py --build build [--torch FOLDER] [--models resnet50 vgg16] [--threads 1 2] [--rounds 10]
    python tools/bench_step.py --models inception_v3 --batch 8 --image-size 299
    python tools/bench_step.py --models bert --batch 8 --length 128        (transformers)
    python tools/bench_step.py --models vit_b_16 --batch 8 --image-size 224
    python tools/bench_step.py --models gnmt8 --batch 32 --length 25
    python tools/bench_step.py --models awd_lm --batch 20 --length 70 [--dropout]

FOLDER is where `pip install --target FOLDER torch torchvision transformers` put PyTorch; leave it out when the python
that runs this has it. VGG-16, ResNet-50, gnmt8 and awd_lm need PyTorch alone. A step is forward, backward and update in
f32, without dropout unless told: SGD with momentum, for BERT and ViT AdamW, for GNMT Adam, for the AWD LM plain SGD.

PyTorch runs eagerly in each of its ways (tools/bench_models.py) with its plain and its fused optimizer; the one with
the least processor time of three steps goes on. Then a step of ours and one of its alternate. `ratio` is the median of
the pairs' ratios; on a machine that others use the ratio of the least processor times is the steadier one. `rest` is
what is outside products of matrices, attention and LSTMs: processor time of ours, least times of the profiler's
operations in several steps for PyTorch.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import bench_models


def serve_torch(options):
    """One step for each line that comes in ("way optimizer", or "parts way optimizer"), one line of JSON back."""
    if options.torch:
        sys.path.insert(0, options.torch)
    import torch
    torch.set_num_threads(options.serve_threads)
    runs = {}
    for line in sys.stdin:
        *parts, way, optimizer = line.split()
        if (way, optimizer) not in runs:
            runs.clear()  # one model's memory at a time
            runs[way, optimizer] = bench_models.step_of(torch, options, way, optimizer)
        step = runs[way, optimizer]
        if parts:
            result = bench_models.seconds_by_part(torch, step)
        else:
            start, cpu = time.perf_counter(), time.process_time()
            loss = step()
            result = {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu, "loss": loss}
        print(json.dumps(result), flush=True)


class Server:
    def __init__(self, command):
        environment = dict(os.environ, OMP_NUM_THREADS=str(os.cpu_count()), KINETO_LOG_LEVEL="6")
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


def best_way(options, model, theirs):
    """Of PyTorch's ways with its optimizers: the one with the least processor time of a step."""
    least = {}
    for way in options.ways or bench_models.WAYS_OF.get(model, bench_models.IMAGE_WAYS):
        for optimizer in options.optimizers:
            line = f"{way} {optimizer}"
            least[line] = min(theirs.step(line)["cpu_seconds"] for _ in range(4))  # the first one also makes it
            print(f"  torch {line:20s} least of four CPU {least[line] * 1e3:8.1f} ms", flush=True)
    return min(least, key=least.get)


def measure(options, model, threads, peak):
    extents = ["--batch", str(options.batch), "--image-size", str(options.image_size), "--length", str(options.length),
               "--classes", str(options.classes)]
    dropout = options.dropout and model in bench_models.OPTIMIZER_OF
    ours = Server([os.path.join(options.build, "bin", "bench_step"), "--model", model, "--threads", str(threads),
                   "--optimizer", bench_models.OPTIMIZER_OF.get(model, "momentum"), "--dropout", "-1" if dropout else "0",
                   *extents])
    theirs = Server([sys.executable, __file__, "--serve", model, "--serve-threads", str(threads), "--torch",
                     options.torch, *extents, *(["--dropout"] if dropout else [])])
    best = best_way(options, model, theirs)
    ours.step(), theirs.step(best)  # shapes become known, memory is taken
    found = {"penstock": [], "torch": []}
    for _ in range(options.rounds):
        found["penstock"].append(ours.step())
        found["torch"].append(theirs.step(best))
    parts = theirs.step("parts " + best)
    ours.close()
    theirs.close()
    for name, steps in found.items():
        wall, cpu = ([s[key] * 1e3 for s in steps] for key in ("seconds", "cpu_seconds"))
        print(f"  {name:26s} median {statistics.median(wall):8.1f} ms  least {min(wall):8.1f}  "
              f"CPU median {statistics.median(cpu):8.1f}  least {min(cpu):8.1f}")
    least = {name: min(s["cpu_seconds"] for s in steps) for name, steps in found.items()}
    pairs = statistics.median(a["seconds"] / b["seconds"] for a, b in zip(*found.values()))
    gflops = found["penstock"][0]["flops"] / (least["penstock"] / threads) / 1e9
    share = statistics.median(s["products"] / sum(s[part] for part in bench_models.PARTS) for s in found["penstock"])
    for part in bench_models.PARTS:
        mine, others = min(s[part] for s in found["penstock"]), parts[part]
        if min(mine, others) > 0:
            print(f"  {part:10s} least {mine * 1e3:8.1f} ms, PyTorch's {others * 1e3:8.1f}: {mine / max(others, 1e-9):.2f}")
    print(f"{model}, {threads} thread(s): ratio {pairs:.3f} to torch {best}; of the least CPU times "
          f"{least['penstock'] / least['torch']:.3f}; {gflops:.0f} GFLOP/s of a peak of {peak:.0f} "
          f"({100 * gflops / peak:.0f}%); {100 * share:.1f}% inside oneDNN", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="build folder with bin/bench_step")
    parser.add_argument("--torch", default="", help="folder that holds PyTorch")
    parser.add_argument("--models", nargs="+", default=["vgg16", "resnet50"])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--length", type=int, default=128, help="of sequences")
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--optimizers", nargs="+", default=bench_models.OPTIMIZERS, help="PyTorch's: plain, fused")
    parser.add_argument("--ways", nargs="+", help="PyTorch's, of tools/bench_models.py")
    parser.add_argument("--dropout", action="store_true", help="at the models' own rates, but for images")
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
