"""Reads the modules of the SWORD project: Bible texts in zText files, dictionaries in zLD files, all zlib blocks.

A text has an entry for each place of its versification, in order: the module, the testament, then for each book an
introduction, and for each chapter a heading and its verses. A heading holds the chapter's mark, <chapter osisID="Gen.1"
sID=...>, which is what the verses are numbered by here. Lengths and offsets are little-endian.
"""

import os
import re
import struct
import zlib

CHAPTER = re.compile(r'<chapter [^>]*osisID="(\w+)\.(\d+)" sID=')
NOTE_OR_TITLE = re.compile(r"<(note|title)\b.*?</\1>", re.DOTALL)
TAG = re.compile(r"<[^>]*>")


def read(path):
    with open(path, "rb") as file:
        return file.read()


def entries(base):
    """The entries of one testament: BASE.bzs says where a block lies in BASE.bzz, BASE.bzv where an entry in which block."""
    packed = read(base + ".bzz")
    blocks = [zlib.decompress(packed[at:at + size]) for at, size, _ in struct.iter_unpack("<III", read(base + ".bzs"))]
    return [blocks[block][at:at + size].decode("utf-8") if size else ""
            for block, at, size in struct.iter_unpack("<IIH", read(base + ".bzv"))]


def verses(root, module):
    """(reference such as Gen.1.1, markup) of every verse of a text, in order."""
    for testament in ("ot", "nt"):
        texts = entries(os.path.join(root, "usr/share/sword/modules/texts/ztext", module, testament))
        marks = [(at, mark.group(1), mark.group(2)) for at, text in enumerate(texts) if (mark := CHAPTER.search(text))]
        ends = [at - (book != marks[i][1]) for i, (at, book, _) in enumerate(marks[1:])] + [len(texts)]
        for (at, book, chapter), end in zip(marks, ends):
            for verse in range(at + 1, end):  # a book's introduction lies before its first chapter's heading
                yield f"{book}.{chapter}.{verse - at}", texts[verse]


def without_notes(markup):
    """A verse's markup without footnotes, without titles, which stand before the verse, and without paragraph signs."""
    return NOTE_OR_TITLE.sub("", markup).replace("¶", "")


def plain(markup):
    """The verse's own words: no tags, single blanks, none at the ends."""
    return " ".join(TAG.sub("", without_notes(markup)).split())


def dictionary(root, module, name="dict"):
    """{key: markup} of a dictionary. NAME.idx says where a key lies in NAME.dat, with the block of NAME.zdt and the place
    in that block's own list."""
    base = os.path.join(root, "usr/share/sword/modules/lexdict/zld", module, name)
    keys, packed = read(base + ".dat"), read(base + ".zdt")
    blocks = [zlib.decompress(packed[at:at + size]) for at, size in struct.iter_unpack("<II", read(base + ".zdx"))]
    found = {}
    for at, size in struct.iter_unpack("<II", read(base + ".idx")):
        key, _, where = keys[at:at + size].partition(b"\r\n")
        block, entry = struct.unpack_from("<II", where)
        begin, length = struct.unpack_from("<II", blocks[block], 4 + 8 * entry)
        found[key.decode("utf-8")] = blocks[block][begin:begin + length].rstrip(b"\0").decode("utf-8")
    return found
