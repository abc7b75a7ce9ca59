#pragma once

#include <ddprun/init.h>

#include <cstdint>
#include <iostream>

namespace ddprun {

/// Seeds libtorch's generators of all devices. With the same seed on every rank the models start equal (DDP
/// would make them so anyway); data augmentation that should differ between ranks adds the rank itself.
void seed_everything(std::uint64_t seed);

/// std::cout on rank 0, nothing elsewhere:  rank0(context) << "epoch " << epoch << "\n";
class Rank0Out {
 public:
  explicit Rank0Out(bool is_rank0) : is_rank0_(is_rank0) {}
  template <class T>
  const Rank0Out& operator<<(const T& value) const {
    if (is_rank0_) std::cout << value;
    return *this;
  }

 private:
  bool is_rank0_;
};

inline Rank0Out rank0(const Context& context) { return Rank0Out(context.rank() == 0); }

}  // namespace ddprun
