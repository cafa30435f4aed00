"""Which samples each minibatch of a corpus of sequences has: apps/data/length_buckets and the epoch's order, in Python.

A second program that is to see the same minibatches computes them from the seed, as ours does.
"""

MASK = 2**64 - 1


class SplitMix64:
    def __init__(self, state):
        self.state = state & MASK

    def next(self):
        self.state = z = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)

    def below(self, bound):
        rejected = 2**64 % bound
        draw = self.next()
        while draw < rejected:
            draw = self.next()
        return draw % bound


def epoch_order(samples, seed, epoch):
    """Fisher-Yates from the last place down."""
    order = list(range(samples))
    random = SplitMix64(SplitMix64(SplitMix64(seed).next() ^ epoch).next())
    for last in range(samples, 1, -1):
        other = random.below(last)
        order[last - 1], order[other] = order[other], order[last - 1]
    return order


def minibatches(lengths, batch, seed, epoch):
    """A list of lists of samples; `lengths` has for each sample those of its sides."""
    longest = [max(1, *sides) for sides in lengths]
    ordered = sorted(longest)
    usual = ordered[(len(ordered) - 1) - (len(ordered) - 1) // 100]
    width = max(5, -(-usual // 10))
    last = min((ordered[-1] - 1) // width, 9)
    buckets = [[] for _ in range(last + 1)]
    for sample in epoch_order(len(lengths), seed, epoch):
        buckets[min((longest[sample] - 1) // width, last)].append(sample)
    slices = [bucket[at:at + batch] for bucket in buckets for at in range(0, len(bucket), batch)]
    return [slices[number] for number in epoch_order(len(slices), ~seed & MASK, epoch)]
