#include "launcher/report/traceback.h"

#include "launcher/output/traceback_scanner.h"
#include "tests/support/catch.h"

#include <fmt/format.h>

#include <chrono>
#include <string>
#include <vector>

using namespace ddprun::launcher;

// The samples are what programs of tests/fault/blame/faults.py printed with Python 3.11, torch 2.11, rich 14
// and loguru 0.7; only paths are shortened.

namespace {

Traceback last_in(std::string_view stderr_text) {
  TracebackScanner scanner;
  scanner.feed(stderr_text);
  return read_traceback(scanner.last().text).value_or(Traceback{});
}

constexpr std::string_view kRaises =
    "[rank1]: Traceback (most recent call last):\n"
    "[rank1]:   File \"/w/faults.py\", line 316, in train\n"
    "[rank1]:     act(number)\n"
    "[rank1]:   File \"/w/faults.py\", line 90, in compute_loss\n"
    "[rank1]:     raise ValueError(f\"loss is nan at step {step}\")\n"
    "[rank1]: ValueError: loss is nan at step 5\n"
    "terminate called without an active exception\n";

constexpr std::string_view kWhileHandling =
    "[rank1]: Traceback (most recent call last):\n"
    "[rank1]:   File \"/w/faults.py\", line 119, in raises_while_handling\n"
    "[rank1]:     compute_loss(step)\n"
    "[rank1]: ValueError: loss is nan at step 5\n"
    "\n"
    "[rank1]: During handling of the above exception, another exception occurred:\n"
    "\n"
    "[rank1]: Traceback (most recent call last):\n"
    "[rank1]:   File \"/w/faults.py\", line 121, in raises_while_handling\n"
    "[rank1]:     {}[\"checkpoint\"]\n"
    "[rank1]:     ~~^^^^^^^^^^^^^^\n"
    "[rank1]: KeyError: 'checkpoint'\n";

constexpr std::string_view kGroup =
    "[rank1]:   + Exception Group Traceback (most recent call last):\n"
    "[rank1]:   |   File \"/w/faults.py\", line 126, in raises_group\n"
    "[rank1]:   |     raise ExceptionGroup(\"two batches failed\", errors)\n"
    "[rank1]:   | ExceptionGroup: two batches failed (2 sub-exceptions)\n"
    "[rank1]:   +-+---------------- 1 ----------------\n"
    "[rank1]:     | ValueError: bad batch 5\n"
    "[rank1]:     +---------------- 2 ----------------\n"
    "[rank1]:     | KeyError: 'label'\n"
    "[rank1]:     +------------------------------------\n";

constexpr std::string_view kPeer =
    "[rank0]: Traceback (most recent call last):\n"
    "[rank0]:   File \"/w/faults.py\", line 44, in all_reduce\n"
    "[rank0]:     dist.all_reduce(torch.ones(1024) * step)\n"
    "[rank0]:   File \"/v/lib/python3.11/site-packages/torch/distributed/c10d_logger.py\", line 83, in "
    "wrapper\n"
    "[rank0]:     return func(*args, **kwargs)\n"
    "[rank0]:            ^^^^^^^^^^^^^^^^^^^^^\n"
    "[rank0]:   File \"/v/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py\", line 3075, "
    "in "
    "all_reduce\n"
    "[rank0]:     work.wait()\n"
    "[rank0]: RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by "
    "peer "
    "[127.0.0.1]:27777\n";

constexpr std::string_view kRich =
    "[rank1]: ╭───────────────────── Traceback (most recent call last) ──────────────────────╮\n"
    "[rank1]: │ /w/faults.py:90 in compute_loss                                              │\n"
    "[rank1]: │                                                                              │\n"
    "[rank1]: │ ❱  90 │   raise ValueError(f\"loss is nan at step {step}\")                    │\n"
    "[rank1]: ╰──────────────────────────────────────────────────────────────────────────────╯\n"
    "[rank1]: ValueError: loss is nan at step 5\n";

constexpr std::string_view kLoguru =
    "2026-11-21 20:00:00.420 | \x1b[31m\x1b[1mERROR   \x1b[0m | \x1b[36m__main__\x1b[0m - \x1b[31m\x1b[1mAn "
    "error has "
    "been caught\x1b[0m\n"
    "\x1b[33m\x1b[1mTraceback (most recent call last):\x1b[0m\n"
    "\n"
    "  File \"\x1b[32m/w/\x1b[0m\x1b[32m\x1b[1mfaults.py\x1b[0m\", line \x1b[33m411\x1b[0m, in "
    "\x1b[35m<module>\x1b[0m\n"
    "    globals()[AROUND](FAULTS[FAULT])\n"
    "              │       └ {'raises': <function raises at 0x7f3d03b3c360>}\n"
    "              └ 'with_loguru'\n"
    "\n"
    "> File \"/w/faults.py\", line 353, in with_loguru\n"
    "    logger.catch(reraise=True)(train)(*arguments)\n"
    "\n"
    "  File \"/w/faults.py\", line 90, in compute_loss\n"
    "    raise ValueError(f\"loss is nan at step {step}\")\n"
    "\n"
    "\x1b[31m\x1b[1mValueError\x1b[0m:\x1b[1m loss is nan at step 5\x1b[0m\n";

constexpr std::string_view kThread =
    "Exception in thread Thread-1 (prefetch):\n"
    "Traceback (most recent call last):\n"
    "  File \"/w/faults.py\", line 90, in compute_loss\n"
    "    raise ValueError(f\"loss is nan at step {step}\")\n"
    "ValueError: loss is nan at step 5\n";

constexpr std::string_view kIgnored =
    "Exception ignored in: <function Run.__del__ at 0x7f1c>\n"
    "Traceback (most recent call last):\n"
    "  File \"/w/run.py\", line 3, in __del__\n"
    "TypeError: 'NoneType' object is not callable\n";

constexpr std::string_view kFault =
    "Fatal Python error: Segmentation fault\n"
    "\n"
    "Current thread 0x00007fd830e6eb80 (most recent call first):\n"
    "  File \"/p/lib/python3.11/ctypes/__init__.py\", line 519 in string_at\n"
    "  File \"/w/faults.py\", line 189 in segfault_with_faulthandler\n"
    "\n"
    "Extension modules: numpy._core._multiarray_umath, torch._C (total: 21)\n";

constexpr std::string_view kNoTraceback =
    "  File \"/w/train.py\", line 3\n"
    "    loss = = 3\n"
    "           ^\n"
    "SyntaxError: invalid syntax\n";

}  // namespace

TEST_CASE("the exception is found behind the prefix that PyTorch gives every line") {
  const Traceback found = last_in(kRaises);
  CHECK(found.exception == "ValueError: loss is nan at step 5");
  CHECK(found.message.empty());
  CHECK(found.shown ==
        std::vector<std::string>{
            "Traceback (most recent call last):", "  File \"/w/faults.py\", line 316, in train",
            "    act(number)", "  File \"/w/faults.py\", line 90, in compute_loss",
            "    raise ValueError(f\"loss is nan at step {step}\")", "ValueError: loss is nan at step 5"});
}

TEST_CASE("a chain tells what it ended with and what it began with") {
  const Traceback found = last_in(kWhileHandling);
  CHECK(found.exception == "KeyError: 'checkpoint'");
  CHECK(found.origin == "ValueError: loss is nan at step 5\n");
  CHECK(found.shown.size() == 12);
  CHECK(found.shown[5] == "During handling of the above exception, another exception occurred:");
}

TEST_CASE("an exception group, Rich's box, loguru's tree and their colours are seen through") {
  CHECK(last_in(kGroup).exception == "ExceptionGroup: two batches failed (2 sub-exceptions)");
  CHECK(last_in(kGroup).message.find("KeyError: 'label'") != std::string::npos);
  CHECK(last_in(kRich).exception == "ValueError: loss is nan at step 5");
  CHECK(last_in(kLoguru).exception == "ValueError: loss is nan at step 5");
}

TEST_CASE("a script that does not compile, an exception without a text, and a fault handler are read") {
  CHECK(last_in(kNoTraceback).exception == "SyntaxError: invalid syntax");
  CHECK(last_in(
            "Traceback (most recent call last):\n  File \"t.py\", line 1, in <module>\nNotImplementedError\n")
            .exception == "NotImplementedError");
  CHECK(last_in(kFault).is_fatal);
  CHECK(last_in(kFault).exception == "Fatal Python error: Segmentation fault");
}

TEST_CASE("a text of several lines is kept, without the stack of C++ below it") {
  const Traceback found = last_in(
      "[rank1]: Traceback (most recent call last):\n"
      "[rank1]:   File \"/w/t.py\", line 1, in f\n"
      "[rank1]: RuntimeError: shapes do not match:\n"
      "[rank1]:   weight (3, 4)\n"
      "[rank1]: \n"
      "[rank1]: check the config\n"
      "[rank1]: Exception raised from check at /pytorch/c10/x.cpp:3 (most recent call first):\n"
      "[rank1]: frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x98 (0x7f in libc10.so)\n"
      "wandb: done\n");
  CHECK(found.exception == "RuntimeError: shapes do not match:");
  CHECK(found.message == "  weight (3, 4)\n\ncheck the config");
}

TEST_CASE("frames of libraries take one line, unless there are no others") {
  CHECK(last_in(kPeer).shown[3] == "  … 2 frames in torch");
  CHECK(last_in(kPeer).shown.size() == 5);
  const Traceback library_only = last_in(
      "Traceback (most recent call last):\n"
      "  File \"/v/lib/python3.11/site-packages/a/x.py\", line 1, in f\n"
      "  File \"/v/lib/python3.11/site-packages/b/x.py\", line 1, in f\n"
      "  File \"/v/lib/python3.11/site-packages/b/y.py\", line 2, in g\n"
      "OSError: gone\n");
  CHECK(library_only.shown ==
        std::vector<std::string>{"Traceback (most recent call last):", "  … 1 frame in a",
                                 "  File \"/v/lib/python3.11/site-packages/b/x.py\", line 1, in f",
                                 "  File \"/v/lib/python3.11/site-packages/b/y.py\", line 2, in g",
                                 "OSError: gone"});
}

TEST_CASE("the last whole traceback stays, whatever is printed after it, and however it is cut into pieces") {
  const std::string noise(200'000, 'x');
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{4096}}) {
    TracebackScanner scanner;
    const std::string all = std::string(kPeer) + std::string(kRaises) + std::string(kIgnored) +
                            "wandb: done\n" + noise + "\nTraceback (most recent call last):\n  File \"cut";
    for (std::size_t at = 0; at < all.size(); at += piece)
      scanner.feed(std::string_view(all).substr(at, piece));
    CHECK(read_traceback(scanner.last().text)->exception == "ValueError: loss is nan at step 5");
    CHECK(scanner.last().bytes_after > noise.size());
  }
}

TEST_CASE("one of a thread is taken only where the program itself has raised nothing") {
  CHECK(last_in(kThread).exception == "ValueError: loss is nan at step 5");
  CHECK(last_in(std::string(kPeer) + std::string(kThread)).exception.find("Connection closed") !=
        std::string::npos);
  CHECK(last_in(kIgnored).exception.empty());
}

TEST_CASE("one of a thread is taken where the program has gone on for long after one that it has caught") {
  const std::string caught =
      "Traceback (most recent call last):\n  File \"t.py\", line 3, in f\nKeyError: 'caught'\n";
  const std::string by_hook =
      "[rank0]: Traceback (most recent call last):\n[rank0]:   File \"t.py\", line 3, in f\n[rank0]: "
      "KeyError: 'caught'\n";
  std::string few;
  for (int epoch = 0; epoch < 15; ++epoch) few += "epoch " + std::to_string(epoch) + "\n";
  const std::string many = few + few;
  CHECK(last_in(caught + many + std::string(kThread)).exception == "ValueError: loss is nan at step 5");
  CHECK(last_in(caught + few + std::string(kThread)).exception == "KeyError: 'caught'");
  CHECK(last_in(std::string(kThread) + many + caught).exception == "KeyError: 'caught'");
  CHECK(last_in(by_hook + many + std::string(kThread)).exception == "KeyError: 'caught'");
}

TEST_CASE("what a program logs or prints on its way out does not take the place of what it leaves with") {
  const std::string cause =
      "Traceback (most recent call last):\n  File \"t.py\", line 3, in f\nValueError: cause\n";
  const std::string other =
      "Traceback (most recent call last):\n  File \"t.py\", line 9, in g\nKeyError: 'other'\n";
  const std::string of_hook =
      "[rank0]: Traceback (most recent call last):\n[rank0]:   File \"t.py\", line 3, in f\n[rank0]: "
      "ValueError: cause\n";
  for (const std::string header :
       {"Task exception was never retrieved\nfuture: <Task finished name='Task-2' coro=<bad()>>\n",
        "ERROR:root:could not flush metrics\n", "WARNING:root:could not flush\n",
        "2026-11-21 20:00:00,420 - train - ERROR - could not flush\n",
        "2026-11-21 | ERROR    | m:f:1 - caught\n"}) {
    CAPTURE(header);
    CHECK(last_in(cause + header + other).exception == "ValueError: cause");
    CHECK(last_in(header + other + cause).exception == "ValueError: cause");
    CHECK(last_in(header + other).exception == "KeyError: 'other'");
  }
  CHECK(last_in(of_hook + other).exception == "ValueError: cause");
  CHECK(last_in(other + of_hook).exception == "ValueError: cause");
  CHECK(last_in(cause + other).exception == "KeyError: 'other'");
  std::string lines;
  for (int i = 0; i < 30; ++i) lines += "step\n";
  CHECK(last_in(cause + lines + "ERROR:root:x\n" + other).exception == "KeyError: 'other'");
}

TEST_CASE("a progress bar before it, a missing newline after it and lines of others in between do no harm") {
  CHECK(last_in("  0%|          | 0/10 [00:00<?, ?it/s]Traceback (most recent call last):\n  File \"t.py\", "
                "line 1, in f\n"
                "ValueError: x")
            .exception == "ValueError: x");
  CHECK(last_in(" 10%|█ | 1/10 [00:00<?, ?it/s][rank3]: Traceback (most recent call last):\n"
                "[rank3]:   File \"t.py\", line 1, in f\nfrom another process\n[rank3]: ValueError: x\n")
            .exception == "ValueError: x");
  CHECK(last_in("CUDA: Traceback of nothing\n").exception.empty());
}

TEST_CASE("a very deep one keeps its first frames and its end") {
  std::string deep = "Traceback (most recent call last):\n  File \"t.py\", line 1, in <module>\n";
  for (int i = 0; i < 20'000; ++i) deep += fmt::format("  File \"t.py\", line {}, in recurse\n", i);
  TracebackScanner scanner;
  scanner.feed(deep + "RecursionError: too deep\n");
  CHECK(scanner.last().text.size() <= TracebackScanner::kLongest + 100);
  const Traceback found = *read_traceback(scanner.last().text);
  CHECK(found.exception == "RecursionError: too deep");
  CHECK(found.shown.size() == 40);
  CHECK(found.shown[1] == "  File \"t.py\", line 1, in <module>");
}

// torch 2.11; only paths are shortened.
constexpr std::string_view kCarried =
    "[rank1]: Traceback (most recent call last):\n"
    "[rank1]:   File \"/w/train.py\", line 11, in <module>\n"
    "[rank1]:     for batch in loader:\n"
    "[rank1]:   File \"/v/lib/python3.11/site-packages/torch/_utils.py\", line 750, in reraise\n"
    "[rank1]:     raise exception\n"
    "[rank1]: OSError: Caught OSError in DataLoader worker process 0.\n"
    "[rank1]: Original Traceback (most recent call last):\n"
    "[rank1]:   File \"/v/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py\", line 358, in "
    "_worker_loop\n"
    "[rank1]:     data = fetcher.fetch(index)\n"
    "[rank1]:   File \"/v/lib/python3.11/site-packages/torch/utils/data/_utils/fetch.py\", line 54, in "
    "fetch\n"
    "[rank1]:     data = [self.dataset[idx] for idx in possibly_batched_index]\n"
    "[rank1]:   File \"/w/train.py\", line 9, in __getitem__\n"
    "[rank1]:     raise OSError(f\"image {i} is truncated\")\n"
    "[rank1]: OSError: image 3 is truncated\n"
    "[rank1]: \n";

TEST_CASE("what torch carries over from a process of the data loader is named as it was raised there") {
  std::string plain;
  for (std::string_view rest = kCarried; !rest.empty(); rest.remove_prefix(rest.find('\n') + 1))
    plain += std::string(rest.substr(9, rest.find('\n') - 8));
  for (const std::string& text : {std::string(kCarried), plain}) {
    const Traceback found = last_in(text);
    CHECK(found.exception == "OSError: image 3 is truncated");
    CHECK(found.origin.starts_with("OSError: image 3 is truncated\n"));
    CHECK(found.place == "DataLoader worker process 0 (train.py:9, __getitem__)");
    CHECK(found.shown ==
          std::vector<std::string>{
              "Traceback (most recent call last):", "  File \"/w/train.py\", line 11, in <module>",
              "    for batch in loader:", "  … 1 frame in torch",
              "OSError: Caught OSError in DataLoader worker process 0.",
              "Original Traceback (most recent call last):", "  … 2 frames in torch",
              "  File \"/w/train.py\", line 9, in __getitem__",
              "    raise OSError(f\"image {i} is truncated\")", "OSError: image 3 is truncated"});
  }
}

TEST_CASE("a chain that torch carries over is named by its last, and began where it began there") {
  const Traceback found = last_in(
      "Traceback (most recent call last):\n  File \"/w/train.py\", line 11, in <module>\n"
      "RuntimeError: Caught RuntimeError in DataLoader worker process 1.\n"
      "Original Traceback (most recent call last):\n  File \"/w/train.py\", line 6, in __getitem__\n"
      "FileNotFoundError: no such file\n\n"
      "The above exception was the direct cause of the following exception:\n\n"
      "Traceback (most recent call last):\n  File \"/w/train.py\", line 8, in __getitem__\n"
      "RuntimeError: cannot load\n\n");
  CHECK(found.exception == "RuntimeError: cannot load");
  CHECK(found.origin.starts_with("FileNotFoundError: no such file"));
  CHECK(found.place == "DataLoader worker process 1 (train.py:8, __getitem__)");
}

TEST_CASE("an exception whose text is very long keeps both ends, however it is cut into pieces") {
  for (const std::string_view rank : {"", "[rank1]: "}) {
    const std::string text = fmt::format(
        "{0}Traceback (most recent call last):\n{0}  File \"t.py\", line 1, in f\n"
        "{0}ValueError: bad batch {1} the end\n",
        rank, std::string(200'000, 'x'));
    for (const std::size_t piece : {std::size_t{7}, std::size_t{4096}, std::size_t{65536}, text.size()}) {
      TracebackScanner scanner;
      for (std::size_t at = 0; at < text.size(); at += piece)
        scanner.feed(std::string_view(text).substr(at, piece));
      const Traceback found = *read_traceback(scanner.last().text);
      CHECK(found.exception.starts_with("ValueError: bad batch xxx"));
      CHECK(found.exception.ends_with("xxx the end"));
      CHECK(found.exception.size() < 13'000);
    }
  }
}

// torch 2.11 after init_process_group: a warning with exc_info, in a compiled frame; only the path is
// shortened.
constexpr std::string_view kRecord =
    "[rank0]:W1122 00:36:44.057000 26532 dyn2.py:7] [0/0] WON'T CONVERT f\n"
    "[rank0]:W1122 00:36:44.057000 26532 dyn2.py:7] [0/0] Traceback (most recent call last):\n"
    "[rank0]:W1122 00:36:44.057000 26532 dyn2.py:7] [0/0]   File \"/w/dyn2.py\", line 6, in <module>\n"
    "[rank0]:W1122 00:36:44.057000 26532 dyn2.py:7] [0/0]     try: 1/0\n"
    "[rank0]:W1122 00:36:44.057000 26532 dyn2.py:7] [0/0] ZeroDivisionError: division by zero\n"
    "[rank0]:W1122 00:36:44.057000 26532 dyn2.py:7] [0/0] \n";

PrintedTraceback printed_last(std::string_view stderr_text) {
  TracebackScanner scanner;
  scanner.feed(stderr_text);
  return scanner.last();
}

TEST_CASE("a record of torch's log is a printed traceback, read without what stands before its lines") {
  const std::string_view rank = "[rank0]:";
  std::string without_rank;
  for (std::string_view rest = kRecord; !rest.empty(); rest.remove_prefix(rest.find('\n') + 1))
    without_rank += rest.substr(rank.size(), rest.find('\n') + 1 - rank.size());
  for (const std::string& record : {std::string(kRecord), without_rank}) {
    const PrintedTraceback found =
        printed_last(record + "[rank0]:W1122 00:36:45.057000 26532 dyn2.py:9] step 1\n  x\nepoch 2\n");
    CHECK(found.by == PrintedTraceback::By::kAnybody);
    CHECK(found.text ==
          "Traceback (most recent call last):\n  File \"/w/dyn2.py\", line 6, in <module>\n    try: 1/0\n"
          "ZeroDivisionError: division by zero\n\n");
    CHECK(found.lines_after == 2);
  }
}

TEST_CASE("a record with the lines of a stack and no header is no script that does not compile") {
  CHECK(printed_last("[rank0]:W1122 00:36:44.057000 26532 x.py:7] from user code:\n"
                     "[rank0]:W1122 00:36:44.057000 26532 x.py:7]   File \"/w/x.py\", line 6, in f\n"
                     "[rank0]:W1122 00:36:44.057000 26532 x.py:7] Set TORCH_LOGS for more\n")
            .text.empty());
  CHECK(printed_last("  File \"/w/x.py\", line 6, in f\n    g()\nstep 3\n").text.empty());
}

TEST_CASE("only a prefix with a blank, on each line, is that of PyTorch's hook") {
  CHECK(printed_last(kRaises).by == PrintedTraceback::By::kInterpreter);
  const std::string once =
      "[rank0]: Traceback (most recent call last):\n  File \"t.py\", line 1, in f\nValueError: x\n";
  const PrintedTraceback found = printed_last(once + "[rank0]: step 1\n");
  CHECK(found.by == PrintedTraceback::By::kAnybody);
  CHECK(found.text.ends_with("\nValueError: x\n"));
  CHECK(found.lines_after == 1);
}

TEST_CASE("no stream costs more than a few copies of each of its bytes, however it is cut into pieces",
          "[.slow]") {
  const std::string header = "Traceback (most recent call last):\n";
  const std::string hooked = "[rank0]: " + header + "[rank0]:   File \"t.py\", line 1, in f\n[rank0]: E: x\n";
  const std::string plain = header + "  File \"t.py\", line 1, in f\nE: x\n";
  const std::string chain =
      "\nDuring handling of the above exception, another exception occurred:\n\n" + plain;
  const std::string frames(60'000, ' ');
  struct Stream {
    std::string first;
    std::string repeated;
  };
  const std::vector<Stream> streams{
      {"Fatal Python error: x\n", "\n"},
      {"Fatal Python error: x\n", "  File \"t.py\", line 1 in f\n"},
      {hooked, "\n"},
      {hooked, "[rank0]: \n"},
      {hooked, "[rank0]: " + std::string(5000, 'x') + "\n"},
      {hooked, "[rank1]: x\n[rank0]: x\n"},
      {plain, "\n"},
      {plain, " x\n"},
      {plain, "x"},
      {plain, "\r 10%|# | 1/10"},
      {plain, chain},
      {plain + frames + "\n", chain},
      {"", header},
      {"", header + "[rank0]: " + header},
      {"", "Fatal Python error: x\n"},
      {"", plain},
      {"", plain + hooked},
      {header, "  File \"t.py\", line 1, in f\n"},
      {hooked, "[rank0]: E: x\n[rank0]: Original Traceback (most recent call last):\n"},
      {"╭─ " + header, "x\n"},
      {"╭─ " + header + "╰─\nE: x \n", std::string(90, 'x') + " \n"},
      {"╭─ " + header + "╰─\nE: x\nOriginal " + header + "  File x \n", std::string(90, 'x') + " \n"},
      {"╭─ " + header + "╰─\nE: x\n╭─ Sub-exception #1\n", "│ " + header},
      {"", "\x1b[31m \x1b[0m"},
      {"", "\x1b[31m \x1b[0m\n"},
      {"[rank0]:W1122 00:36:44.057000 1 x.py:7] " + header, "[rank0]:W1122 00:36:44.057000 1 x.py:7] x\n"},
      {"", "[rank0]:W1122 00:36:44.057000 1 x.py:7] " + plain},
  };
  for (const Stream& stream : streams) {
    std::string text = stream.first;
    while (text.size() < 1'000'000) text += stream.repeated;
    for (const std::size_t piece : {std::size_t{7}, std::size_t{65536}, text.size()}) {
      INFO("stream " << &stream - streams.data() << " in pieces of " << piece);
      TracebackScanner scanner;
      for (std::size_t at = 0; at < text.size(); at += piece)
        scanner.feed(std::string_view(text).substr(at, piece));
      CHECK(scanner.copied_bytes() <= 8 * text.size());
      CHECK(scanner.last().text.size() <= TracebackScanner::kLongest + 100);
    }
  }
}

TEST_CASE(
    "the text of an exception ends after so many lines and bytes, and belongs to it as far as it goes") {
  std::string text(kRaises.substr(0, kRaises.rfind("terminate")));
  const std::size_t size = printed_last(text).text.size();
  for (int i = 0; i < 100'000; ++i) text += fmt::format("[rank1]: line {}\n", i);
  const PrintedTraceback found = printed_last(text);
  CHECK(found.text.size() < size + 8 * 1024);
  CHECK(read_traceback(found.text)->exception == "ValueError: loss is nan at step 5");
  CHECK(found.lines_after == 0);
  CHECK(found.bytes_after == 0);
}

TEST_CASE("what comes later behind the same prefix is none of the exception's text") {
  TracebackScanner scanner;
  const ddprun::TimePoint start{};
  scanner.feed(kRaises.substr(0, kRaises.rfind("terminate")), start);
  scanner.feed("[rank1]: more of it\n", start + std::chrono::seconds(1));
  CHECK(scanner.last().lines_after == 0);
  for (int i = 0; i < 3; ++i) scanner.feed("[rank1]: step\n", start + std::chrono::seconds(60 + i));
  CHECK(scanner.last().lines_after == 3);
  CHECK(scanner.last().text.ends_with("more of it\n"));
}

TEST_CASE("a fault handler's text ends where the program goes on") {
  const std::string threads =
      "Thread 0x00007fd830e6eb80 [loader] (most recent call first):\n  <no Python frame>\n\n";
  const std::string fault(kFault);
  const std::string all =
      fault.substr(0, fault.find("Current")) + threads + fault.substr(fault.find("Current"));
  const std::string without_modules = all.substr(0, all.find("\nExtension"));
  for (const std::string& text : {all, without_modules}) {
    const PrintedTraceback found = printed_last(text + "step 1\n" + "[rank0]: step 2\n\n  step 3\nstep 4\n");
    CHECK(found.text == text);
    CHECK(found.lines_after == 3);
  }
  CHECK(printed_last("Fatal Python error: init: cannot start\nPython runtime state: core initialized\n"
                     "ModuleNotFoundError: No module named 'encodings'\n\n" +
                     threads)
            .lines_after == 0);
}
