"""Penstock's generator of starting values (kernels/initialise.hpp) in NumPy: fixtures need not store weights."""

import numpy as np

GAMMA = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1


def _mix_int(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def name_hash(name):
    """FNV-1a, 64 bits."""
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = ((value ^ byte) * 0x100000001B3) & MASK
    return value


def words(seed, name, count):
    """The first `count` words of the stream of (seed, name)."""
    key = _mix_int(_mix_int((seed + GAMMA) & MASK) ^ name_hash(name))
    with np.errstate(over="ignore"):
        z = np.uint64(key) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GAMMA)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def uniform(seed, name, shape, value):
    count = int(np.prod(shape))
    u = ((words(seed, name, count) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return (np.float64(np.float32(value)) * (2 * u - 1)).astype(np.float32).reshape(shape)


def normal(seed, name, shape, value):
    count = int(np.prod(shape))
    bits = words(seed, name, (count + 1) // 2)
    u1 = ((bits >> np.uint64(32)).astype(np.float64) + 0.5) * 2.0**-32
    u2 = ((bits & np.uint64(0xFFFFFFFF)).astype(np.float64) + 0.5) * 2.0**-32
    radius = np.float64(np.float32(value)) * np.sqrt(-2 * np.log(u1))
    pairs = np.stack([radius * np.cos(2 * np.pi * u2), radius * np.sin(2 * np.pi * u2)], axis=1)
    return pairs.reshape(-1)[:count].astype(np.float32).reshape(shape)


def signs(seed, name, count):
    """(64, count) of +-1: row k has +1 where bit k of the element's word is set."""
    bits = words(seed, name, count)
    return np.where((bits[None, :] >> np.arange(64, dtype=np.uint64)[:, None]) & np.uint64(1), 1.0, -1.0)
