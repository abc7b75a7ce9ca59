#pragma once

#include "rendezvous/membership/types.h"

#include <string>
#include <vector>

namespace ddprun::membership {

/// Who is here, who is missing and what is waited for, for people.
struct Attendance {
  int min_nodes = 1;
  int max_nodes = 1;
  std::vector<std::string> here;
  std::vector<std::string> missing;   ///< as far as it is known who
  std::vector<std::string> stopping;  ///< whose workers still run
  Duration fence{};                   ///< within which workers of a lost node are certain to be gone; 0: none
};

/// "2 of 3 nodes are here: node a (10.0.0.1), node b (10.0.0.2); missing: node rank 2"
std::string to_sentence(Attendance attendance);

/// The first few, as strverscmp orders them: "a, b and 12 more".
std::string join_names(std::vector<std::string> names);

}  // namespace ddprun::membership
