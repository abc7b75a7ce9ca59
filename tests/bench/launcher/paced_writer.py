"""Writes lines of 100 bytes to stdout at a given number of MB/s until it is stopped."""

import os
import sys
import time

BLOCKS_A_SECOND = 100


def main():
    block = (b"x" * 99 + b"\n") * (int(float(sys.argv[1]) * 1e6) // BLOCKS_A_SECOND // 100)
    begin = time.monotonic()
    written = 0
    while True:
        rest = memoryview(block)
        while rest:
            rest = rest[os.write(1, rest):]
        written += 1
        time.sleep(max(0.0, begin + written / BLOCKS_A_SECOND - time.monotonic()))


main()
