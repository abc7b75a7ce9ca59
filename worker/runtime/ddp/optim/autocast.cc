#include <ddprun/autocast.h>

#include <ATen/autocast_mode.h>

namespace ddprun {

AutocastGuard::AutocastGuard(at::DeviceType device, std::optional<at::ScalarType> dtype, Mode mode)
    : device_(device),
      was_enabled_(at::autocast::is_autocast_enabled(device)),
      dtype_before_(at::autocast::get_autocast_dtype(device)) {
  at::autocast::set_autocast_enabled(device, mode == Mode::kEnabled);
  at::autocast::set_autocast_dtype(device, dtype.value_or(dtype_before_));
  at::autocast::increment_nesting();
}

AutocastGuard::~AutocastGuard() {
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, was_enabled_);
  at::autocast::set_autocast_dtype(device_, dtype_before_);
}

}  // namespace ddprun
