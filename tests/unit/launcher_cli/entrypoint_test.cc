#include "launcher/plan/entrypoint.h"

#include "rendezvous/base/exit_codes.h"
#include "tests/support/catch.h"
#include "tests/unit/launcher_cli/temporary_directory.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

using namespace ddprun;
using namespace ddprun::launcher;
using ddprun::testing::TemporaryDirectory;

namespace {

/// A folder with a fake python3 in its bin, which is all of PATH.
struct Fixture {
  Fixture() {
    std::filesystem::create_directory(dir.path() + "/bin");
    make("bin/python3", 0755);
    host.environment = {{"PATH", dir.path() + "/bin"}};
    host.self_directory = dir.path() + "/bin";
  }
  std::string make(const std::string& name, mode_t mode) const {
    const std::string path = dir.path() + "/" + name;
    std::ofstream(path) << "#!/bin/sh\n";
    chmod(path.c_str(), mode);
    return path;
  }
  [[nodiscard]] Result<std::vector<std::string>> command(const std::string& entrypoint) {
    options.entrypoint = entrypoint;
    return resolve_command(options, host);
  }
  TemporaryDirectory dir;
  HostFacts host;
  Options options;
};

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("a script runs under unbuffered Python") {
  Fixture f;
  f.options.entrypoint_args = {"--lr", "0.1"};
  const std::string script = f.make("t.py", 0644);
  CHECK(f.command(script).value() == Words{f.dir.path() + "/bin/python3", "-u", script, "--lr", "0.1"});
}

TEST_CASE("PYTHON_EXEC chooses the interpreter") {
  Fixture f;
  const std::string other = f.make("bin/pypy", 0755);
  f.host.environment.emplace_back("PYTHON_EXEC", "pypy");
  CHECK(f.command(f.make("t.py", 0644)).value().front() == other);
  f.host.environment.back().second = "nopython";
  CHECK(f.command(f.dir.path() + "/t.py").error().message() ==
        "environment variable PYTHON_EXEC: program \"nopython\" does not exist: it is neither in PATH nor a "
        "file here");
}

TEST_CASE("in an environment of Python, ddprun starts that environment's, whatever is first in PATH") {
  for (const char* mark : {"pyvenv.cfg", "conda-meta"}) {
    Fixture f;
    std::filesystem::create_directories(f.dir.path() + "/env/bin");
    const std::string python = f.make("env/bin/python3", 0755);
    const std::string script = f.make("t.py", 0644);
    f.host.self_directory = f.dir.path() + "/env/bin";
    CHECK(f.command(script).value().front() == f.dir.path() + "/bin/python3");  // a folder like /usr
    f.make(std::string("env/") + mark, 0644);
    CHECK(f.command(script).value().front() == python);
    f.host.environment.emplace_back("PYTHON_EXEC", "python3");
    CHECK(f.command(script).value().front() == f.dir.path() + "/bin/python3");
  }
}

TEST_CASE("what Python runs is given to Python: a compiled file, an archive, a folder, its own options") {
  Fixture f;
  const std::string python = f.dir.path() + "/bin/python3";
  for (const char* name : {"t.pyc", "t.pyz"}) {
    const std::string file = f.make(name, 0644);
    CHECK(f.command(file).value() == Words{python, "-u", file});
  }
  f.make("__main__.py", 0644);
  CHECK(f.command(f.dir.path()).value() == Words{python, "-u", f.dir.path()});
  CHECK(f.command("-m").value() == Words{python, "-u", "-m"});
  CHECK(f.command("-").value() == Words{python, "-u", "-"});
}

TEST_CASE("a module needs no file") {
  Fixture f;
  f.options.module = true;
  CHECK(f.command("pkg.train").value() == Words{f.dir.path() + "/bin/python3", "-u", "-m", "pkg.train"});
}

TEST_CASE("--no-python runs even a .py as it is, and --run-path wins over it and over --module") {
  Fixture f;
  const std::string script = f.make("t.py", 0755);
  f.options.no_python = true;
  CHECK(f.command(script).value() == Words{script});
  f.options.run_path = true;
  CHECK(f.command(script).value() == Words{f.dir.path() + "/bin/python3", "-u", script});
  f.options.module = true;
  CHECK(f.command(script).value() == Words{f.dir.path() + "/bin/python3", "-u", script});
}

TEST_CASE("a program without a slash is looked up in PATH") {
  Fixture f;
  CHECK(f.command("python3").value() == Words{f.dir.path() + "/bin/python3"});
}

TEST_CASE("a job is run by the worker beside ddprun, with its overrides") {
  Fixture f;
  const std::string job = f.make("job.json", 0644);
  CHECK(f.command(job).error().message() ==
        "ddprun-worker, which runs .json jobs, is not beside ddprun in " + f.dir.path() +
            "/bin, which has the launcher alone; install ddprun[worker], the wheel of ddprun-worker, into a "
            "virtual environment, or build both into build/quick/bin with scripts/quickstart.sh in a clone "
            "of "
            "ddprun");
  const std::string worker = f.make("bin/ddprun-worker", 0755);
  f.options.config_overrides = config::parse_overrides({"/train/epochs=3"}).value();
  f.options.backend = "gloo";
  CHECK(f.command(job).value() == Words{worker, job, "--set", "/train/epochs=3", "--set", "/backend=gloo"});
}

TEST_CASE("--pass-local-rank gives the flag of torch.distributed.launch before the program's own arguments") {
  Fixture f;
  f.options.pass_local_rank = true;
  f.options.entrypoint_args = {"x"};
  CHECK(f.command("python3").value() ==
        Words{f.dir.path() + "/bin/python3", "--local-rank=${local_rank}", "x"});
}

TEST_CASE("what does not exist is said before anything starts, with 127") {
  Fixture f;
  const Error script = f.command("/nowhere/t.py").error();
  CHECK(script.message() == "script \"/nowhere/t.py\" does not exist");
  CHECK(to_exit_code(script.code()) == 127);
  CHECK(f.command("/nowhere/job.json").error().message() == "job file \"/nowhere/job.json\" does not exist");
  CHECK(f.command("./nowhere").error().message() == "program \"./nowhere\" does not exist");
  CHECK(f.command("nowhere").error().message() ==
        "program \"nowhere\" does not exist: it is neither in PATH nor a file here");
  CHECK(f.command("train").error().message() ==
        "program \"train\" does not exist: it is neither in PATH nor a file here");
  CHECK(f.command("drian").error().message() ==
        "program \"drian\" does not exist: it is neither in PATH nor a file here; did you mean \"ddprun "
        "drain\"?");
  CHECK(f.command(f.dir.path() + "/bin/python3/x").error().code() == ErrorCode::kNotFound);
}

TEST_CASE("what cannot be executed is said before anything starts, with 126") {
  Fixture f;
  const std::string file = f.make("plain", 0644);
  const Error error = f.command(file).error();
  CHECK(error.message() == "program \"" + file + "\" is not executable; run chmod +x " + file +
                               ", or write the interpreter before it: python3 " + file);
  CHECK(to_exit_code(error.code()) == 126);
  CHECK(f.command(f.dir.path() + "/bin").error().message() ==
        "program \"" + f.dir.path() + "/bin\" is a directory; Python runs one that has a __main__.py");
}

TEST_CASE("Python itself may be missing") {
  Fixture f;
  f.host.environment = {{"PATH", "/nowhere"}};
  CHECK(f.command(f.make("t.py", 0644)).error().message() ==
        "python3 is not in PATH; activate an environment that has it, or set PYTHON_EXEC=/path/to/python3");
}
