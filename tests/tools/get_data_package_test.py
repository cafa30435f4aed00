#!/usr/bin/env python3
"""tools/get_data on a real package: the King James text comes out as counted, and a second start finds it."""

import os
import subprocess
import sys
import tempfile

GET_DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "get_data")
WANTED = ("853,269  train", "49,351  valid", "47,411  test", "12,475  types", "licence: public domain")


def main():
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, GET_DATA, "kjv", os.path.join(folder, "kjv")]
        environment = {**os.environ, "XDG_CACHE_HOME": folder}
        first = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=240)
        if first.returncode == 1 and "cannot download the Debian package" in first.stderr:
            print(f"{__file__}:1: Skipped\n{first.stderr.strip()}")
            return 0
        missing = [text for text in WANTED if text not in first.stdout]
        if first.returncode != 0 or missing:
            print(f"exit code {first.returncode}, missing {missing}\n{first.stdout}{first.stderr}")
            return 1
        again = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=60)
        if again.returncode != 0 or "is there and whole" not in again.stdout:
            print(f"a second start: exit code {again.returncode}\n{again.stdout}{again.stderr}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
