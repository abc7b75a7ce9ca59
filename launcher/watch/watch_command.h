#pragma once

namespace ddprun::launcher::watch {

/// `ddprun ps --watch`: a page of this user's jobs on this host every two seconds, with their ranks on all nodes, in
/// place on a terminal and one after the other elsewhere; ends with the last of the jobs, or when nobody reads any
/// more. The exit code.
int watch_jobs();

}  // namespace ddprun::launcher::watch
