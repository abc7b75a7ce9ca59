// How the sanitizers run in everything we compile. Built in rather than given in the environment, which many tests
// clear. What they find goes to a file beside the build, because a guard process has no stderr and a test may expect
// the launcher to fail: scripts/check_sanitizer_reports.sh looks there when ctest ends.

#define REPORTS "exitcode=99:log_exe_name=1:log_path=" DDPRUN_SANITIZER_REPORTS

extern "C" {

// A small quarantine: tests measure what memory is held.
[[gnu::used]] const char* __asan_default_options() {
  return "detect_leaks=1:halt_on_error=1:strict_string_checks=1:detect_stack_use_after_return=1:"
         "check_initialization_order=1:strict_init_order=1:quarantine_size_mb=16:" REPORTS;
}

[[gnu::used]] const char* __ubsan_default_options() { return "halt_on_error=1:print_stacktrace=1:" REPORTS; }

[[gnu::used]] const char* __tsan_default_options() { return "halt_on_error=1:second_deadlock_stack=1:" REPORTS; }

}  // extern "C"
