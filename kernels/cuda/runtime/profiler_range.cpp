#include "kernels/cuda/runtime/profiler_range.h"

#include <nvtx3/nvToolsExt.h>

namespace penstock::cuda {
namespace {

/// Null without a profiler; the calls below do nothing then.
nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t made = nvtxDomainCreateA("penstock");
  return made;
}

class NvtxRange final : public ProfilerRange {
 public:
  explicit NvtxRange(const std::string& name) {
    attributes_.version = NVTX_VERSION;
    attributes_.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    attributes_.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    attributes_.message.registered = nvtxDomainRegisterStringA(domain(), name.c_str());
  }
  void begin() override { nvtxDomainRangePushEx(domain(), &attributes_); }
  void end() override { nvtxDomainRangePop(domain()); }

 private:
  nvtxEventAttributes_t attributes_{};
};

}  // namespace

std::unique_ptr<ProfilerRange> make_profiler_range(const std::string& name) {
  return std::make_unique<NvtxRange>(name);
}

}  // namespace penstock::cuda
