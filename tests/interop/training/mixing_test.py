#!/usr/bin/env python3
"""The twins end with the same bytes when the samples of a batch are mixed."""

import pathlib
import sys
import unittest

import twin_test

twin_test.CASES = {
    "mixup": {"train": {"mixup_alpha": 0.3}},
    "cutmix, smoothed labels": {"train": {"cutmix_alpha": 1}, "task": {"label_smoothing": 0.1}},
    "mixup and cutmix, accumulation": {"train": {"mixup_alpha": 0.8, "cutmix_alpha": 0.5, "accumulation_steps": 2}},
}

if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        twin_test.BINARIES = pathlib.Path(sys.argv.pop(1)).resolve()
    test = twin_test.Twins("test_the_twins_end_with_the_same_weights_average_and_accuracy")
    sys.exit(not unittest.TextTestRunner(verbosity=2).run(unittest.TestSuite([test])).wasSuccessful())
