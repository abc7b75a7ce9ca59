#include "launcher/output/rich_text.h"

#include "launcher/output/traceback_scanner.h"
#include "launcher/report/traceback.h"
#include "tests/support/catch.h"

#include <string>
#include <string_view>
#include <utility>

using namespace ddprun::launcher;

// The samples are what rich 15 prints with Python 3.11 where stderr is no terminal: 80 columns.

namespace {

constexpr std::string_view kLocals =
    R"(╭───────────────────── Traceback (most recent call last) ──────────────────────╮
│ /w/train.py:72 in <module>                                                   │
│                                                                              │
│ ❱ 72 globals()[sys.argv[1]](*([7] if sys.argv[1] == "train" else []))        │
│                                                                              │
│ ╭──────────── locals ─────────────╮                                          │
│ │ sys = <module 'sys' (built-in)> │                                          │
│ ╰─────────────────────────────────╯                                          │
│                                                                              │
│ /w/train.py:15 in train                                                      │
│                                                                              │
│ ❱ 15 │   compute_loss(steps)                                                 │
│                                                                              │
│ ╭────────────────── locals ───────────────────╮                              │
│ │ frame = '│ ╰───╯'                           │                              │
│ │  seen = 'Traceback (most recent call last)' │                              │
│ │ steps = 7                                   │                              │
│ ╰─────────────────────────────────────────────╯                              │
│                                                                              │
│ /w/train.py:9 in compute_loss                                                │
│                                                                              │
│ ❱  9 │   raise ValueError(f"loss is nan at step {step}")                     │
│                                                                              │
│ ╭─ locals ─╮                                                                 │
│ │ step = 7 │                                                                 │
│ ╰──────────╯                                                                 │
╰──────────────────────────────────────────────────────────────────────────────╯
ValueError: loss is nan at step 7
)";

constexpr std::string_view kWrapped =
    R"(╭───────────────────── Traceback (most recent call last) ──────────────────────╮
│ /w/train.py:71 in <module>                                                   │
│                                                                              │
│ ❱ 71 globals()[sys.argv[1]](*([7] if sys.argv[1] == "train" else []))        │
│                                                                              │
│ /w/train.py:18 in wrapped                                                    │
│                                                                              │
│ ❱ 18 │   raise RuntimeError(                                                 │
╰──────────────────────────────────────────────────────────────────────────────╯
RuntimeError: The size of tensor a (128) must match the size of tensor b (256) 
at non-singleton dimension 1; expected the same for all of them
)";

constexpr std::string_view kLongWord =
    R"(╭───────────────────── Traceback (most recent call last) ──────────────────────╮
│ /w/train.py:71 in <module>                                                   │
│                                                                              │
│ ❱ 71 globals()[sys.argv[1]](*([7] if sys.argv[1] == "train" else []))        │
│                                                                              │
│ /w/train.py:25 in long_word                                                  │
│                                                                              │
│ ❱ 25 │   raise FileNotFoundError(2, "No such file", "/data/" + "imagenet/sha │
╰──────────────────────────────────────────────────────────────────────────────╯
FileNotFoundError: [Errno 2] No such file: 
'/data/imagenet/shard-0001/imagenet/shard-0001/imagenet/shard-0001/imagenet/shar
d-0001/imagenet/shard-0001/imagenet/shard-0001/'
)";

constexpr std::string_view kWrappedChain =
    R"(╭───────────────────── Traceback (most recent call last) ──────────────────────╮
│ /w/train.py:30 in wrapped_chain                                              │
│                                                                              │
│ ❱ 30 │   │   wrapped()                                                       │
│                                                                              │
│ /w/train.py:18 in wrapped                                                    │
│                                                                              │
│ ❱ 18 │   raise RuntimeError(                                                 │
╰──────────────────────────────────────────────────────────────────────────────╯
RuntimeError: The size of tensor a (128) must match the size of tensor b (256) 
at non-singleton dimension 1; expected the same for all of them

The above exception was the direct cause of the following exception:

╭───────────────────── Traceback (most recent call last) ──────────────────────╮
│ /w/train.py:71 in <module>                                                   │
│                                                                              │
│ ❱ 71 globals()[sys.argv[1]](*([7] if sys.argv[1] == "train" else []))        │
│                                                                              │
│ /w/train.py:32 in wrapped_chain                                              │
│                                                                              │
│ ❱ 32 │   │   raise RuntimeError("training failed") from error                │
╰──────────────────────────────────────────────────────────────────────────────╯
RuntimeError: training failed
)";

constexpr std::string_view kSyntax =
    R"(╭───────────────────── Traceback (most recent call last) ──────────────────────╮
│ /w/train.py:71 in <module>                                                   │
│                                                                              │
│ ❱ 71 globals()[sys.argv[1]](*([7] if sys.argv[1] == "train" else []))        │
│                                                                              │
│ /w/train.py:36 in does_not_compile                                           │
│                                                                              │
│ ❱ 36 │   exec(compile("loss = = 3", "cfg.py", "exec"))                       │
╰──────────────────────────────────────────────────────────────────────────────╯
╭──────────────────────────────────────────────────────────────────────────────╮
│ loss = = 3                                                                   │
│        ▲                                                                     │
╰──────────────────────────────────────────────────────────────────────────────╯
SyntaxError: invalid syntax
)";

constexpr std::string_view kNoted =
    R"(╭───────────────────── Traceback (most recent call last) ──────────────────────╮
│ /w/train.py:71 in <module>                                                   │
│                                                                              │
│ ❱ 71 globals()[sys.argv[1]](*([7] if sys.argv[1] == "train" else []))        │
│                                                                              │
│ /w/train.py:42 in noted                                                      │
│                                                                              │
│ ❱ 42 │   raise error                                                         │
╰──────────────────────────────────────────────────────────────────────────────╯
ValueError: bad row
[NOTE] in file train-3.parquet
)";

constexpr std::string_view kMembers =
    R"(╭───────────────────── Traceback (most recent call last) ──────────────────────╮
│ /w/train.py:71 in <module>                                                   │
│                                                                              │
│ ❱ 71 globals()[sys.argv[1]](*([7] if sys.argv[1] == "train" else []))        │
│                                                                              │
│ /w/train.py:52 in group                                                      │
│                                                                              │
│ ❱ 52 │   raise ExceptionGroup("two batches failed", errors)                  │
╰──────────────────────────────────────────────────────────────────────────────╯
ExceptionGroup: two batches failed (2 sub-exceptions)

╭────────────────────────────── Sub-exception #1 ──────────────────────────────╮
│ ╭─────────────────── Traceback (most recent call last) ────────────────────╮ │
│ │ /w/train.py:49 in group                                                  │ │
│ │                                                                          │ │
│ │ ❱ 49 │   │   │   compute_loss(step)                                      │ │
│ │                                                                          │ │
│ │ /w/train.py:9 in compute_loss                                            │ │
│ │                                                                          │ │
│ │ ❱  9 │   raise ValueError(f"loss is nan at step {step}")                 │ │
│ ╰──────────────────────────────────────────────────────────────────────────╯ │
│ ValueError: loss is nan at step 5                                            │
╰──────────────────────────────────────────────────────────────────────────────╯

╭────────────────────────────── Sub-exception #2 ──────────────────────────────╮
│ ╭─────────────────── Traceback (most recent call last) ────────────────────╮ │
│ │ /w/train.py:49 in group                                                  │ │
│ │                                                                          │ │
│ │ ❱ 49 │   │   │   compute_loss(step)                                      │ │
│ │                                                                          │ │
│ │ /w/train.py:9 in compute_loss                                            │ │
│ │                                                                          │ │
│ │ ❱  9 │   raise ValueError(f"loss is nan at step {step}")                 │ │
│ ╰──────────────────────────────────────────────────────────────────────────╯ │
│ ValueError: loss is nan at step 6                                            │
╰──────────────────────────────────────────────────────────────────────────────╯
)";

constexpr std::string_view kCarriedByRich =
    R"(╭───────────────────── Traceback (most recent call last) ──────────────────────╮
│ /w/train.py:71 in <module>                                                   │
│                                                                              │
│ ❱ 71 globals()[sys.argv[1]](*([7] if sys.argv[1] == "train" else []))        │
│                                                                              │
│ /w/train.py:56 in loader                                                     │
│                                                                              │
│ ❱ 56 │   raise ValueError(                                                   │
╰──────────────────────────────────────────────────────────────────────────────╯
ValueError: Caught ValueError in DataLoader worker process 0.
Original Traceback (most recent call last):
  File "/venv/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py", 
line 358, in _worker_loop
    data = fetcher.fetch(index)  # type: ignore[possibly-undefined]
           ^^^^^^^^^^^^^^^^^^^^
  File "/venv/lib/python3.11/site-packages/torch/utils/data/_utils/fetch.py", 
line 54, in fetch
    data = [self.dataset[idx] for idx in possibly_batched_index]
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/w/train.py", line 13, in __getitem__
    raise ValueError(f"sample {i} of {self.root / self.names[i]} is of 
{image.size}, not of {self.size}")
ValueError: bad sample 20

)";

PrintedTraceback last_by_rich(std::string_view stderr_text) {
  TracebackScanner scanner;
  scanner.feed(stderr_text);
  return scanner.last();
}

Traceback read_rich(std::string_view stderr_text) {
  return read_traceback(last_by_rich(stderr_text).text).value_or(Traceback{});
}

/// As PyTorch's hook prints it.
std::string behind_rank(std::string_view text) {
  std::string prefixed;
  for (; !text.empty(); text.remove_prefix(text.find('\n') + 1))
    prefixed += "[rank1]: " + std::string(text.substr(0, text.find('\n') + 1));
  return prefixed;
}

}  // namespace

TEST_CASE(
    "boxes, borders and headers among the local variables neither end nor begin a traceback of Rich's") {
  for (const std::string& text : {std::string(kLocals), behind_rank(kLocals)}) {
    const Traceback found = read_rich(text);
    CHECK(found.exception == "ValueError: loss is nan at step 7");
    CHECK(found.message.empty());
    CHECK(found.shown.size() == 28);
  }
}

TEST_CASE("a text that Rich has broken is put together again") {
  const std::string wrapped =
      "RuntimeError: The size of tensor a (128) must match the size of tensor b (256) at non-singleton "
      "dimension 1; expected the same for all of them";
  for (const std::string& text : {std::string(kWrapped), behind_rank(kWrapped)}) {
    CHECK(read_rich(text).exception == wrapped);
    CHECK(read_rich(text).message.empty());
  }
  CHECK(last_by_rich(kWrapped).lines_after == 0);
  const std::string box(kWrapped.substr(0, kWrapped.find("RuntimeError:")));
  const std::string full = "ValueError: " + std::string(68, 'x');
  CHECK(read_rich(box + full + "\nand more\n").exception == full + " and more");
  CHECK(read_rich(kWrappedChain).exception == "RuntimeError: training failed");
  CHECK(read_rich(kWrappedChain).origin == wrapped + "\n");
  CHECK(read_rich(kLongWord).exception ==
        "FileNotFoundError: [Errno 2] No such file: "
        "'/data/imagenet/shard-0001/imagenet/shard-0001/imagenet/shard-0001/imagenet/shard-0001/imagenet/"
        "shard-0001/imagenet/shard-0001/'");
}

TEST_CASE("a header of two colours, which Rich prints with FORCE_COLOR, is one") {
  std::string text(kWrapped);
  text.insert(text.find("(most recent"), "\x1b[0m\x1b[1;2;31m");
  text.insert(0, "\x1b[31m");
  CHECK(read_rich(text).exception.starts_with("RuntimeError: The size of tensor a"));
}

TEST_CASE("what a program prints after Rich's text is none of it where its word would have had room") {
  const std::string box(kNoted.substr(0, kNoted.find("ValueError")));
  const PrintedTraceback found = last_by_rich(box + "ValueError: bad row \nstep 8\n");
  CHECK(found.text.ends_with("\nValueError: bad row \n"));
  CHECK(found.lines_after == 1);
  const std::string room = box + "ValueError: " + std::string(64, 'x');
  CHECK(last_by_rich(room + " \n123\n").lines_after == 1);
  CHECK(last_by_rich(room + " \n1234\n").lines_after == 0);
  CHECK(last_by_rich(room + "\n12345678\n").lines_after == 1);
  CHECK(last_by_rich(room + "5678\nepoch\n").lines_after == 0);
}

TEST_CASE("the lines of a plain traceback are as they are, whatever their width") {
  const std::string plain = "Traceback (most recent call last):\n  File \"t.py\", line 1, in f\n";
  const PrintedTraceback found = last_by_rich(plain + "ValueError: " + std::string(67, 'x') + " \nstep 8\n");
  CHECK(found.text.ends_with("x \n"));
  CHECK(found.lines_after == 1);
}

TEST_CASE("the exception below Rich's box around a syntax error is found, and a note belongs to its text") {
  CHECK(read_rich(kSyntax).exception == "SyntaxError: invalid syntax");
  CHECK(read_rich(kSyntax).shown.size() == 14);
  CHECK(last_by_rich(kSyntax).lines_after == 0);
  CHECK(read_rich(kNoted).message == "[NOTE] in file train-3.parquet");
  CHECK(last_by_rich(kNoted).lines_after == 0);
}

TEST_CASE("the members of a group are Rich's boxes below it, and other boxes are not") {
  const Traceback found = read_rich(kMembers);
  CHECK(found.exception == "ExceptionGroup: two batches failed (2 sub-exceptions)");
  CHECK(found.message.find("ValueError: loss is nan at step 6") != std::string::npos);
  CHECK(last_by_rich(kMembers).lines_after == 0);
  CHECK(read_rich(std::string(kMembers) + std::string(kWrapped)).exception.starts_with("RuntimeError: The"));
  const std::string_view table = "╭──── Summary ─────╮\n│ loss         3.5 │\n╰──────────────────╯\n";
  CHECK(last_by_rich(std::string(kLocals) + std::string(table)).lines_after == 3);
}

TEST_CASE("what torch carries over is named by its own exception where Rich has broken the lines") {
  for (const std::string& text : {std::string(kCarriedByRich), behind_rank(kCarriedByRich)}) {
    const Traceback found = read_rich(text);
    CHECK(found.exception == "ValueError: bad sample 20");
    CHECK(found.place == "DataLoader worker process 0 (train.py:13, __getitem__)");
    CHECK(found.shown.back() == "ValueError: bad sample 20");
  }
  CHECK(last_by_rich(kCarriedByRich).lines_after == 0);
}

TEST_CASE("a line that is none of Rich's is not taken for the exception that it prints") {
  std::string text(kCarriedByRich);
  text.insert(text.find("line 358"), "[loader] step 3 is done\n");
  text.insert(text.find("ValueError: Caught"), "step 3 is done\n");
  CHECK(read_rich(text).exception == "ValueError: bad sample 20");
}

TEST_CASE("Rich's ASCII boxes are seen through") {
  std::string text(kMembers);
  for (const auto& [from, to] : {std::pair<std::string_view, std::string_view>{"╭", "+"},
                                 {"╮", "+"},
                                 {"╰", "+"},
                                 {"╯", "+"},
                                 {"─", "-"},
                                 {"│", "|"}}) {
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos;)
      text.replace(at, from.size(), to);
  }
  CHECK(read_rich(text).exception == "ExceptionGroup: two batches failed (2 sub-exceptions)");
  CHECK(last_by_rich(text).lines_after == 0);
}
