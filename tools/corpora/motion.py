"""Clips of Fashion-MNIST's images that move over a larger frame, with captions from a small grammar."""

import gzip
import hashlib
import json
import os
import struct

from corpora.bible import write_lines

FRAME, IMAGE = 40, 28  # pixels a side
STEPS = 4              # of one pixel, each a frame
CLIPS = {"train": ("train", 20_000), "test": ("t10k", 2_000)}
# Fashion-MNIST's classes in order. T-shirt, pullover, coat and shirt share a noun: people cannot tell them apart either.
NOUNS = ("a top", "a pair of trousers", "a top", "a dress", "a top", "a sandal", "a top", "a sneaker", "a bag",
         "an ankle boot")
DIRECTIONS = (("left", -1, 0), ("right", 1, 0), ("up", 0, -1), ("down", 0, 1))


def plan_of(part, number):
    """(x and y of the first frame, frames before it moves, the legs): all from the part and the clip's number."""
    draw = hashlib.sha256(f"{part} {number}".encode()).digest()
    middle = (FRAME - IMAGE) // 2
    first = draw[0] % 4
    legs = [DIRECTIONS[first], DIRECTIONS[(first + 1 + draw[1] % 3) % 4]][:(0, 1, 1, 1, 2, 2, 2, 2)[draw[2] % 8]]
    return middle + draw[3] % 5 - 2, middle + draw[4] % 5 - 2, 1 + draw[5] % 3, legs


def caption_of(noun, legs):
    if not legs:
        return noun + " does not move"
    return f"{noun} moves " + " and then ".join(leg[0] for leg in legs)


def positions(x, y, still, legs):
    """Where the image's corner is in each frame."""
    places = [(x, y)] * (still if legs else still + STEPS)
    for _, dx, dy in legs:
        for _ in range(STEPS):
            x, y = x + dx, y + dy
            places.append((x, y))
    return places


def draw_frame(image, x, y):
    """FRAME x FRAME bytes: black, and the image with its corner at (x, y)."""
    rows = [bytes(x) + image[row * IMAGE:(row + 1) * IMAGE] + bytes(FRAME - IMAGE - x) for row in range(IMAGE)]
    return bytes(FRAME * y) + b"".join(rows) + bytes(FRAME * (FRAME - IMAGE - y))


def read_idx(path, magic):
    with gzip.open(path) as file:
        data = file.read()
    found = struct.unpack_from(">I", data)[0]
    if found != magic:
        raise ValueError(f"{path}: found magic number {found}, wanted {magic}")
    return data[16 if magic == 0x803 else 8:]


def write_clips(path, frames, first_frames):
    """A safetensors file: `frames` u8 [all frames, 40, 40] and `first_frames` i64 [clips + 1], where each clip begins and,
    last, where all end."""
    count = first_frames[-1]
    places = struct.pack(f"<{len(first_frames)}q", *first_frames)
    header = json.dumps({
        "first_frames": {"dtype": "I64", "shape": [len(first_frames)], "data_offsets": [0, len(places)]},
        "frames": {"dtype": "U8", "shape": [count, FRAME, FRAME],
                   "data_offsets": [len(places), len(places) + count * FRAME * FRAME]}}).encode()
    header += b" " * (-len(header) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + places)
        file.writelines(frames)


def make_clips(roots, folder):
    """train and test, each of its own split's images, image I in clip I: .safetensors (see write_clips) and .tsv, a clip a
    line: its number, its frames, its caption."""
    source = os.path.join(roots["dataset-fashion-mnist"], "usr/share/datasets/fashion-mnist")
    counts, captions = {}, set()
    for part, (name, clips) in CLIPS.items():
        images = read_idx(os.path.join(source, name + "-images-idx3-ubyte.gz"), 0x803)
        labels = read_idx(os.path.join(source, name + "-labels-idx1-ubyte.gz"), 0x801)
        frames, lines, first_frames = [], [], [0]
        for clip in range(clips):
            x, y, still, legs = plan_of(part, clip)
            image = images[clip * IMAGE * IMAGE:(clip + 1) * IMAGE * IMAGE]
            places = positions(x, y, still, legs)
            frames.extend(draw_frame(image, *place) for place in places)
            caption = caption_of(NOUNS[labels[clip]], legs)
            captions.add(caption)
            lines.append(f"{clip}\t{len(places)}\t{caption}")
            first_frames.append(first_frames[-1] + len(places))
        write_clips(os.path.join(folder, part + ".safetensors"), frames, first_frames)
        write_lines(folder, part + ".tsv", lines)
        counts |= {f"{part} clips": clips, f"{part} frames": first_frames[-1]}
    return counts | {"different captions": len(captions)}
