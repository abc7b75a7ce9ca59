#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::commands {

/// Thrown by print() when the reader of stdout has gone (`| head`): the command ends without a word.
struct NobodyReads {};

/// Writes to stdout.
/// Errors  NobodyReads; Exception kOs: the disk is full.
void print(std::string_view text);
/// Writes to stderr, or not at all.
void print_error(std::string_view text);

bool is_terminal(int fd);
/// Of a terminal; of anything else so many that no line is broken.
std::size_t columns_of(int fd);

/// Names and what is said of each, in two columns: "  mlp   linear layers with ReLU". What does not fit into
/// `columns` goes on below, in the second column, or indented where that is too narrow. Pure.
std::string two_columns(const std::vector<std::pair<std::string, std::string>>& rows, std::size_t indent,
                        std::size_t columns);

/// "10,000 training images", "1 image": a number with what it counts, whose last letter goes where it is 1.
std::string counted(std::int64_t count, std::string_view what);

}  // namespace ddprun::commands
