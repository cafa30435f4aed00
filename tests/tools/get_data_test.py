#!/usr/bin/env python3
"""tools/get_data on packages, modules and images that the tests make."""

import contextlib
import dataclasses
import gzip
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zlib

TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools")
GET_DATA = os.path.join(TOOLS, "get_data")
sys.dont_write_bytecode = True
sys.path.insert(0, TOOLS)

from corpora import bible, making, motion, packages, strongs, sword, wordnet  # noqa: E402


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def write_text(root, module, testaments):
    """A SWORD text whose every entry is a block of its own."""
    for testament, texts in testaments.items():
        base = os.path.join(root, "usr/share/sword/modules/texts/ztext", module, testament)
        blocks, places, packed = b"", b"", b""
        for number, text in enumerate(texts):
            block = zlib.compress(text.encode())
            blocks += struct.pack("<III", len(packed), len(block), len(text.encode()))
            places += struct.pack("<IIH", number, 0, len(text.encode()))
            packed += block
        write(base + ".bzs", blocks)
        write(base + ".bzv", places)
        write(base + ".bzz", packed)


def write_dictionary(root, module, words):
    base = os.path.join(root, "usr/share/sword/modules/lexdict/zld", module, "dict")
    texts = [text.encode() + b"\0" for text in words.values()]
    block, at = struct.pack("<I", len(texts)), 4 + 8 * len(texts)
    for text in texts:
        block += struct.pack("<II", at, len(text))
        at += len(text)
    packed = zlib.compress(block + b"".join(texts))
    keys, index = b"", b""
    for number, key in enumerate(words):
        line = key.encode() + b"\r\n" + struct.pack("<II", 0, number)
        index += struct.pack("<II", len(keys), len(line))
        keys += line
    for name, data in ((".idx", index), (".dat", keys), (".zdx", struct.pack("<II", 0, len(packed))), (".zdt", packed)):
        write(base + name, data)


def chapter(book, number):
    return f'<div/><chapter n="{number}" osisID="{book}.{number}" sID="{book}.{number}"/>'


WORDS = ('<title>A psalm</title>¶ The <w lemma="strong:H0430">God</w> of <w lemma="strong:H1"> fathers</w>,'
         '<note n="1">a <w lemma="strong:H9">note</w></note> and <w lemma="strong:H0430">God</w>.')


class Lines(unittest.TestCase):
    def setUp(self):
        self.holder = tempfile.TemporaryDirectory()
        self.addCleanup(self.holder.cleanup)
        self.root = self.holder.name
        self.out = os.path.join(self.root, "out")
        os.mkdir(self.out)

    def lines(self, name):
        with open(os.path.join(self.out, name), encoding="utf-8", newline="") as file:
            return file.read().split("\n")[:-1]


class Sword(Lines):
    def test_verses_are_numbered_by_their_chapters_mark(self):
        write_text(self.root, "m", {
            "ot": ["", "module", "<div/>", chapter("Gen", 1), "a", "b", chapter("Gen", 2), "c", "<div/>", chapter("Exod", 1), "d"],
            "nt": ["", "", "<div/>", chapter("Matt", 1), "é"]})
        self.assertEqual(list(sword.verses(self.root, "m")), [
            ("Gen.1.1", "a"), ("Gen.1.2", "b"), ("Gen.2.1", "c"), ("Exod.1.1", "d"), ("Matt.1.1", "é")])

    def test_a_verse_is_its_own_words_alone(self):
        self.assertEqual(sword.plain(WORDS), "The God of fathers, and God.")

    def test_a_dictionary_is_read_by_its_keys(self):
        write_dictionary(self.root, "d", {"00001": "first", "00430": "Gött"})
        self.assertEqual(sword.dictionary(self.root, "d"), {"00001": "first", "00430": "Gött"})


class Bible(Lines):
    def test_blocks_of_a_hundred_verses_are_held_out(self):
        parts = [bible.part_of(number) for number in range(4000)]
        self.assertEqual((parts.count("valid"), parts.count("test")), (200, 200))
        self.assertEqual({parts[number] for number in range(900, 1000)}, {"valid"})
        self.assertEqual({parts[number] for number in range(1900, 2000)}, {"test"})

    def test_pairs_are_of_the_same_verse_and_empty_ones_are_left_out(self):
        for module, texts in ((bible.ENGLISH, ["one", "two", "three"]), (bible.SPANISH, ["uno", "", "tres"])):
            write_text(self.root, module, {"ot": ["", "", "", chapter("Gen", 1), *texts], "nt": [""]})
        counts = bible.make_pairs({"sword-text-kjv": self.root, "sword-text-sparv": self.root}, self.out)
        self.assertEqual(counts, {"train pairs": 2, "valid pairs": 0, "test pairs": 0, "pairs": 2})
        self.assertEqual(self.lines("train.tsv"), ["one\tuno", "three\ttres"])
        self.assertEqual((self.lines("train.en"), self.lines("train.es")), (["one", "three"], ["uno", "tres"]))

    def test_tokens_are_words_and_marks(self):
        self.assertEqual(bible.tokens_of("Judæa’s, or 2"), ["jud", "a", "’", "s", ",", "or"])

    def test_the_vocabulary_is_ranked_by_count_then_bytes(self):
        write_text(self.root, bible.ENGLISH, {"ot": ["", "", "", chapter("Gen", 1), "B b a", "C."], "nt": [""]})
        counts = bible.make_text({"sword-text-kjv": self.root}, self.out)
        self.assertEqual(counts["train tokens with <eos>"], 7)
        self.assertEqual(counts["types with <eos>"], 5)
        self.assertEqual(self.lines("vocab.txt"), ["<eos>", "<unk>", "b", ".", "a", "c"])
        self.assertEqual(self.lines("train.txt"), ["b b a", "c ."])


class WordNet(Lines):
    def test_a_gloss_ends_where_its_examples_begin(self):
        lines = ["  1 licence | x\n", '00001740 03 n 01 entity 0 000 | that which is; is it "one"?; "it was full; of x"  \n']
        self.assertEqual(list(wordnet.glosses(lines, "noun")),
                         [("noun.00001740", "noun.Tops", 'that which is; is it "one"?')])

    def test_there_are_45_classes(self):
        self.assertEqual(len(set(wordnet.CLASSES)), 45)


class Strongs(Lines):
    def test_spans_lie_where_the_text_has_them(self):
        text, found = strongs.spans(WORDS)
        self.assertEqual(text, sword.plain(WORDS))
        self.assertEqual(found, [("H430", 4, "God"), ("H1", 11, "fathers"), ("H430", 24, "God")])
        for _, start, words in found:
            self.assertEqual(text[start:start + len(words)], words)

    def test_a_definition_has_no_tags_and_braces(self):
        self.assertEqual(strongs.definition('<orth>x</orth><def>A {word};<lb/>\n <hi>f</hi>: - g</def>'), "A word; f: - g")

    def test_train_has_one_answer_and_dev_all(self):
        texts = [WORDS] * 2000  # of which the last hundred are for dev
        write_text(self.root, bible.ENGLISH, {"ot": ["", "", "", chapter("Gen", 1), *texts], "nt": [""]})
        write_dictionary(self.root, "strongsgreek", {"00001": "<def>greek</def>"})
        write_dictionary(self.root, "strongshebrew", {"00001": "<def>father</def>", "00430": "<def>god</def>"})
        most, strongs.MOST_USES = strongs.MOST_USES, 5000
        try:
            counts = strongs.make_spans({name: self.root for name in (
                "sword-text-kjv", "sword-dict-strongs-greek", "sword-dict-strongs-hebrew")}, self.out)
        finally:
            strongs.MOST_USES = most
        self.assertEqual(counts, {"tagged spans": 6000, "lemmas": 2, "train questions": 3800, "dev questions": 200})
        for name, answers in (("train", 1), ("dev", 2)):
            with open(os.path.join(self.out, name + ".json"), encoding="utf-8") as file:
                data = json.load(file)["data"]
            asked = {question["question"]: question for question in data[0]["paragraphs"][0]["qas"]}
            self.assertEqual(len(asked["god"]["answers"]), answers)
            self.assertEqual(asked["father"]["answers"], [{"text": "fathers", "answer_start": 11}])


class Motion(Lines):
    def test_every_clip_stays_within_its_frame_and_tells_its_legs(self):
        kinds = set()
        for clip in range(500):
            x, y, still, legs = motion.plan_of("train", clip)
            places = motion.positions(x, y, still, legs)
            self.assertTrue(all(0 <= place <= motion.FRAME - motion.IMAGE for pair in places for place in pair))
            self.assertEqual(len({leg[0] for leg in legs}), len(legs))
            kinds.add(motion.caption_of("it", legs))
        self.assertEqual(len(kinds), 1 + 4 + 12)
        self.assertIn("it moves left and then up", kinds)
        self.assertIn("it does not move", kinds)

    def test_a_frame_is_black_around_the_image(self):
        frame = motion.draw_frame(bytes([7]) * motion.IMAGE ** 2, 3, 12)
        self.assertEqual(len(frame), motion.FRAME ** 2)
        inside = [at for at, value in enumerate(frame) if value]
        self.assertEqual((len(inside), inside[0], inside[-1]), (784, 12 * 40 + 3, 39 * 40 + 30))

    def test_clips_are_a_safetensors_file_with_a_line_for_each(self):
        source = os.path.join(self.root, "usr/share/datasets/fashion-mnist")
        os.makedirs(source)
        for name, count in (("train", 3), ("t10k", 2)):
            for kind, data in (("images-idx3", struct.pack(">4I", 0x803, count, 28, 28) + bytes([9]) * 784 * count),
                               ("labels-idx1", struct.pack(">2I", 0x801, count) + bytes([9, 1, 0][:count]))):
                with gzip.open(os.path.join(source, f"{name}-{kind}-ubyte.gz"), "wb") as file:
                    file.write(data)
        clips, motion.CLIPS = motion.CLIPS, {"train": ("train", 3), "test": ("t10k", 2)}
        try:
            counts = motion.make_clips({"dataset-fashion-mnist": self.root}, self.out)
        finally:
            motion.CLIPS = clips
        with open(os.path.join(self.out, "train.safetensors"), "rb") as file:
            data = file.read()
        size = struct.unpack_from("<Q", data)[0]
        header = json.loads(data[8:8 + size])
        self.assertEqual(header["frames"]["shape"], [counts["train frames"], 40, 40])
        self.assertEqual(len(data), 8 + size + header["frames"]["data_offsets"][1])
        lines = [line.split("\t") for line in self.lines("train.tsv")]
        self.assertEqual([line[0] for line in lines], ["0", "1", "2"])
        self.assertEqual(sum(int(line[1]) for line in lines), counts["train frames"])
        self.assertTrue(lines[0][2].startswith("an ankle boot") and lines[1][2].startswith("a pair of trousers"))


class Making(Lines):
    """All of a corpus or nothing."""

    def setUp(self):
        super().setUp()
        self.folder = os.path.join(self.root, "corpora", "toy")
        self.said = []
        self.made = 0

    def make(self, digest=None, write_files=None, use=()):
        def write_toy(_, folder):
            self.made += 1
            bible.write_lines(folder, "a.txt", ["a"])
            return {"lines": 1}
        sums = f"{packages.hashlib.sha256(b'a' + os.linesep.encode()).hexdigest()}  a.txt\n"
        corpus = making.Corpus("toy", "", "free", use, write_files or write_toy, digest or making.digest_of(sums))
        return making.make_corpus(corpus, self.folder, os.path.join(self.root, "store"), self.said.append)

    def assert_nothing_is_left(self):
        above = os.path.dirname(self.folder)
        self.assertEqual(os.listdir(above) if os.path.exists(above) else [], [])

    def test_a_second_start_finds_it_there(self):
        self.assertEqual(self.make(), {"lines": 1})
        self.assertIsNone(self.make())
        self.assertEqual(self.made, 1)
        self.assertEqual(os.listdir(os.path.dirname(self.folder)), ["toy"])

    def test_a_damaged_one_is_made_again(self):
        self.make()
        bible.write_lines(self.folder, "a.txt", ["b"])
        self.assertEqual(self.make(), {"lines": 1})
        with open(os.path.join(self.folder, "a.txt"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "a\n")

    def test_another_result_is_refused_and_nothing_is_left(self):
        with self.assertRaisesRegex(packages.Failure, "toy: found SHA-256 .* wanted 00"):
            self.make(digest="00")
        self.assert_nothing_is_left()

    def test_a_folder_of_somebody_else_is_left_alone(self):
        os.makedirs(self.folder)
        bible.write_lines(self.folder, "mine", ["x"])
        with self.assertRaisesRegex(packages.Failure, "found files that were not made here, wanted a new or empty folder"):
            self.make()
        self.assertEqual(os.listdir(self.folder), ["mine"])

    def test_an_interruption_leaves_nothing(self):
        def interrupted(_, folder):
            bible.write_lines(folder, "a.txt", ["a"])
            raise KeyboardInterrupt
        with self.assertRaises(KeyboardInterrupt):
            self.make(write_files=interrupted)
        self.assert_nothing_is_left()

    def test_leftovers_of_a_killed_start_go(self):
        process = subprocess.Popen(["true"])
        process.wait()
        os.makedirs(os.path.join(os.path.dirname(self.folder), f".toy.part-{process.pid}", "made"))
        self.make()
        self.assertEqual(os.listdir(os.path.dirname(self.folder)), ["toy"])


class Packages(Lines):
    """Against an apt-get and a dpkg-query of the test's own, which come first on PATH."""

    def setUp(self):
        super().setUp()
        self.store = os.path.join(self.root, "store")
        self.programs = os.path.join(self.root, "bin")
        self.program("dpkg-query", "exit 1")
        path = os.environ["PATH"]
        self.addCleanup(os.environ.__setitem__, "PATH", path)
        os.environ["PATH"] = self.programs + os.pathsep + path
        self.package = packages.Package("toy", "1:2-3", packages.hashlib.sha256(b"deb").hexdigest())

    def program(self, name, text):
        write(os.path.join(self.programs, name), f"#!/bin/sh\n{text}\n".encode())
        os.chmod(os.path.join(self.programs, name), 0o755)

    def test_a_download_is_checked_and_kept(self):
        self.program("apt-get", f'echo run >> "{self.root}/runs"; printf deb > "toy_2-3_all.deb"')
        path = packages.download(self.package, self.store, lambda _: None)
        self.assertEqual(os.path.basename(path), "toy_1%3a2-3_all.deb")
        packages.download(self.package, self.store, lambda _: None)
        with open(os.path.join(self.root, "runs"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "run\n")
        write(path, b"damaged")
        packages.download(self.package, self.store, lambda _: None)
        self.assertEqual(packages.sha256_of(path), self.package.sha256)

    def test_another_file_of_that_name_is_refused(self):
        self.program("apt-get", 'printf other > "toy_2-3_all.deb"')
        with self.assertRaisesRegex(packages.Failure, "found SHA-256 .*, wanted " + self.package.sha256):
            packages.download(self.package, self.store, lambda _: None)
        self.assertEqual(os.listdir(self.store), [])

    def test_a_package_that_is_not_to_be_had_is_named_with_the_reason(self):
        self.program("apt-get", 'echo "W: a warning" >&2; echo "E: Unable to locate package toy" >&2; exit 100')
        with self.assertRaisesRegex(packages.Failure, "package toy 1:2-3: E: Unable to locate package toy .*apt-get update"):
            packages.download(self.package, self.store, lambda _: None)
        self.assertEqual(os.listdir(self.store), [])

    def test_only_the_version_that_was_asked_for_is_taken_as_installed(self):
        self.program("dpkg-query", 'printf "installed 1:2-3"')
        self.assertEqual(packages.files_of(self.package, self.store, self.out, lambda _: None), "/")
        self.assertFalse(packages.is_installed(dataclasses.replace(self.package, version="1:2-4")))


class Program(Lines):
    def run_it(self, *words):
        return subprocess.run([sys.executable, GET_DATA, *words], capture_output=True, text=True, check=False,
                              env={**os.environ, "XDG_CACHE_HOME": self.root}, timeout=120)

    def test_an_unknown_name_is_answered_with_the_nearest(self):
        run = self.run_it("gloses")
        self.assertEqual(run.returncode, 2)
        self.assertIn("unknown corpus 'gloses', did you mean 'glosses'?", run.stderr)

    def test_the_list_tells_packages_and_licences(self):
        run = self.run_it("--list")
        self.assertEqual(run.returncode, 0)
        for text in ("bible-en-es", "sword-text-sparv", "wordnet-base", "WordNet 3.0", "fashion-motion", "MIT"):
            self.assertIn(text, run.stdout)

    def test_ctrl_c_during_a_download_leaves_nothing_half_made(self):
        programs = os.path.join(self.root, "bin")
        waiting = os.path.join(self.root, "waiting")
        for name, text in (("dpkg-query", "exit 1"), ("apt-get", f'touch "{waiting}"; exec sleep 60')):
            write(os.path.join(programs, name), f"#!/bin/sh\n{text}\n".encode())
            os.chmod(os.path.join(programs, name), 0o755)
        path = programs + os.pathsep + os.environ["PATH"]
        folder = os.path.join(self.root, "data", "kjv")
        with subprocess.Popen([sys.executable, GET_DATA, "kjv", folder], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                              text=True, env={**os.environ, "XDG_CACHE_HOME": self.root, "PATH": path},
                              start_new_session=True) as run:
            deadline = time.monotonic() + 60
            while not os.path.exists(waiting) and time.monotonic() < deadline:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    run.wait(0.02)
            os.killpg(run.pid, signal.SIGINT)
            _, errors = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 130)
        self.assertEqual(errors.splitlines(), ["get_data: interrupted; nothing half made is left, the same command goes on"])
        self.assertEqual(os.listdir(os.path.join(self.root, "data")), [])
        self.assertEqual(os.listdir(os.path.join(self.root, "penstock", "packages")), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
