#!/usr/bin/env python3
"""The proofs of tools/train_real still run: each in its quick form, which proves nothing but does every step.

    train_real_test.py BIN
"""

import os
import subprocess
import sys
import tempfile
import unittest

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "train_real")
PROOFS = ["awd_kjv", "gnmt_bible", "load_saved", "minilm_glosses", "s2vt_motion", "vit_fashion"]
BIN = sys.argv.pop()


class Proofs(unittest.TestCase):
    def run_quickly(self, proof):
        with tempfile.TemporaryDirectory() as out:
            return subprocess.run([sys.executable, os.path.join(FOLDER, proof), "--quick", "--bin", BIN, "--out", out],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240)

    def test_each_runs_quickly_to_its_last_line(self):
        for proof in PROOFS:
            with self.subTest(proof):
                done = self.run_quickly(proof)
                self.assertEqual(done.returncode, 0, done.stdout)
                self.assertRegex(done.stdout.splitlines()[-1], r"^quick: .*\([0-9.]+ min, ")

    def test_a_program_that_was_not_built_is_told_in_one_line(self):
        with tempfile.TemporaryDirectory() as out:
            done = subprocess.run([sys.executable, os.path.join(FOLDER, "awd_kjv"), "--quick", "--bin", out, "--out", out],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"\Aawd_kjv: .*/awd_lm: there is no such program; wanted a build: .*\n\Z")

    def test_every_script_of_the_folder_is_among_them(self):
        scripts = [name for name in os.listdir(FOLDER) if "." not in name and os.path.isfile(os.path.join(FOLDER, name))]
        self.assertEqual(sorted(scripts), sorted(PROOFS))


if __name__ == "__main__":
    unittest.main()
