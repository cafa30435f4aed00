"""WordNet's glosses as sentences of 45 classes: which lexicographer's file a synset comes from."""

import collections
import os
import zlib

from corpora.bible import write_lines

FILES = ("noun", "verb", "adj", "adv")
CLASSES = (
    "adj.all adj.pert adv.all noun.Tops noun.act noun.animal noun.artifact noun.attribute noun.body noun.cognition "
    "noun.communication noun.event noun.feeling noun.food noun.group noun.location noun.motive noun.object noun.person "
    "noun.phenomenon noun.plant noun.possession noun.process noun.quantity noun.relation noun.shape noun.state "
    "noun.substance noun.time verb.body verb.change verb.cognition verb.communication verb.competition verb.consumption "
    "verb.contact verb.creation verb.emotion verb.motion verb.perception verb.possession verb.social verb.stative "
    "verb.weather adj.ppl").split()


def glosses(file, name):
    """(id such as noun.00001740, class, gloss without its examples) of each synset of data.NAME."""
    for line in file:
        if line.startswith("  "):  # the licence stands before the synsets
            continue
        fields, _, gloss = line.partition(" | ")
        offset, number = fields.split()[:2]
        yield f"{name}.{offset}", CLASSES[int(number)], gloss.strip().split('; "')[0]


def make_glosses(roots, folder):
    """train.tsv and test.tsv, class TAB gloss, and labels.txt, the classes in byte order. A synset is in the test part
    where the CRC-32 of its id is a multiple of ten."""
    parts = {"train": [], "test": []}
    for name in FILES:
        path = os.path.join(roots["wordnet-base"], "usr/share/wordnet/data." + name)
        with open(path, encoding="utf-8") as file:
            for key, label, gloss in glosses(file, name):
                parts["test" if zlib.crc32(key.encode()) % 10 == 0 else "train"].append(f"{label}\t{gloss}")
    for part, lines in parts.items():
        write_lines(folder, part + ".tsv", lines)
    write_lines(folder, "labels.txt", sorted(CLASSES, key=str.encode))
    most = collections.Counter(line.split("\t")[0] for line in parts["test"]).most_common(1)[0][1]
    return {f"{part} glosses": len(lines) for part, lines in parts.items()} | {
        "glosses": sum(map(len, parts.values())), "classes": len(CLASSES), "test glosses of the largest class": most}
