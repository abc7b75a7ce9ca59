// The copy stream as it runs on a GPU, where a device of the test's own stands for it: it writes down what it is asked.
#include "worker/training/batches/copy_lane.h"

#include "tests/support/catch.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/types.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::training;

namespace {

using Lines = std::vector<std::string>;

const at::Device kDevice(at::kCPU, 0);

/// libtorch wants its functions const.
struct FakeDevice final : c10::impl::DeviceGuardImplInterface {
  mutable Lines lines;
  mutable c10::StreamId current = 0;

  static c10::Stream stream(c10::StreamId id) { return c10::Stream(c10::Stream::UNSAFE, kDevice, id); }
  static std::string name(const c10::Stream& stream) { return "stream " + std::to_string(stream.id()); }

  [[nodiscard]] c10::DeviceType type() const override { return at::kCPU; }
  [[nodiscard]] at::Device exchangeDevice(at::Device /*to*/) const override { return kDevice; }
  [[nodiscard]] at::Device getDevice() const override { return kDevice; }
  void setDevice(at::Device /*to*/) const override {}
  void uncheckedSetDevice(at::Device /*to*/) const noexcept override {}
  [[nodiscard]] c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  [[nodiscard]] c10::Stream getStream(at::Device /*of*/) const override { return stream(current); }
  [[nodiscard]] c10::Stream getStreamFromGlobalPool(at::Device /*of*/, bool /*high*/) const override {
    return stream(7);
  }
  [[nodiscard]] c10::Stream exchangeStream(c10::Stream to) const override {
    const c10::Stream before = stream(current);
    current = to.id();
    return before;
  }
  void record(void** event, const c10::Stream& on, c10::DeviceIndex /*index*/,
              c10::EventFlag /*flag*/) const override {
    *event = this->event();
    lines.push_back("record on " + name(on));
  }
  void block(void* /*event*/, const c10::Stream& on) const override { lines.push_back(name(on) + " waits"); }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& on) const override {
    lines.push_back(name(on) + " uses " + std::to_string(*static_cast<const std::int64_t*>(data.get())));
  }
  [[nodiscard]] void* event() const { return &lines; }
};

/// In place of libtorch's own, while it lives.
class Installed {
 public:
  Installed() : before_(slot().exchange(&device)) {}
  ~Installed() { slot().store(before_); }
  Installed(const Installed&) = delete;
  Installed& operator=(const Installed&) = delete;

  const FakeDevice device{};

 private:
  static std::atomic<const c10::impl::DeviceGuardImplInterface*>& slot() {
    return c10::impl::device_guard_impl_registry[static_cast<std::size_t>(at::kCPU)];
  }
  const c10::impl::DeviceGuardImplInterface* before_;
};

Batch batch_of(std::int64_t number) { return {{at::tensor(number), at::tensor(number + 1)}, 1}; }

}  // namespace

TEST_CASE("on the CPU nothing is copied") { CHECK(make_copy_lane(at::kCPU) == nullptr); }

TEST_CASE("copies run on a stream of their own, and computing waits for them where a batch is joined") {
  const Batch first = batch_of(10), second = batch_of(20);
  const Installed installed;
  const FakeDevice& fake = installed.device;
  const std::unique_ptr<CopyLane> lane = make_copy_stream(kDevice);
  fake.current = 3;

  c10::StreamId finished_on = -1;
  const Batch begun = lane->begin(first, [&](Batch batch) {
    finished_on = fake.current;
    return batch;
  });
  CHECK(finished_on == 7);
  CHECK(fake.current == 3);
  CHECK(fake.lines == Lines{"record on stream 7"});
  lane->join(begun);
  CHECK(fake.lines == Lines{"record on stream 7", "stream 3 waits", "stream 3 uses 10", "stream 3 uses 11"});

  fake.lines.clear();
  lane->join(lane->begin(second, {}));
  CHECK(fake.lines == Lines{"record on stream 7", "stream 3 waits", "stream 3 uses 20", "stream 3 uses 21"});
}
