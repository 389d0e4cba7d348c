#include <utility>
#include <vector>

#include "kernels/backend/cuda_backend.h"
#include "kernels/cuda/make_math.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/device_access.h"
#include "kernels/cuda/runtime/gpu_choice.h"
#include "kernels/cuda/runtime/runtime_call.h"
#include "kernels/device/error.h"

namespace penstock {

namespace {

/// cuBLASLt's.
class LibraryPlans final : public MatmulPlans {
 public:
  explicit LibraryPlans(std::shared_ptr<cuda::GemmLibrary> library) : library_(std::move(library)) {}

  std::string text() const override { return library_->plans().to_json(); }
  size_t count() const override { return library_->plans().table().size(); }
  std::string origin() const override { return to_string(library_->plans().origin()); }
  std::string adopt(const std::string& text) override {
    return library_->plans().adopt(cuda::GemmPlans::from_json(text));
  }
  void agree(bool is_rank_0, const std::function<void()>& plan_everything,
             const Broadcast& broadcast) override {
    agree_on_plans(library_->plans(), is_rank_0, plan_everything,
                   [&](std::string& text) { text = broadcast(text); });
  }

 private:
  std::shared_ptr<cuda::GemmLibrary> library_;
};

}  // namespace

bool cuda_built_in() {
  return true;
}

bool cuda_present() {
  try {
    return cuda::count_gpus() > 0;
  } catch (const DeviceError&) {
    return false;  // who asks for it by name is told why
  }
}

CudaBackend make_cuda_backend(const CudaRequest& request) {
  DeviceOptions options;
  options.rank = request.rank;
  options.index =
      cuda::choose_gpu({request.rank, request.local_rank, request.local_ranks}, request.share_devices);
  CudaBackend backend;
  backend.device = cuda::make_cuda_device(options);
  backend.place = cuda::to_line(cuda::placement_of(request.rank, options.index));
  backend.access = cuda::access_to(*backend.device);
  cuda::use_gpu(options.index);
  cuda::GemmOptions products;
  products.tf32 = request.tf32;
  products.driver_version = static_cast<uint64_t>(cuda::driver_version());
  products.log = request.log;
  cuda::MathOptions math;
  math.attention = request.attention;
  math.log = request.log;
  const auto library = cuda::GemmLibrary::create(*backend.device, products);
  backend.math = cuda::make_math(*backend.device, library, math);
  backend.matmul_plans = std::make_shared<LibraryPlans>(library);
  return backend;
}

std::string cuda_placement(std::span<const std::string> places, bool share_devices) {
  std::vector<cuda::Placement> ranks;
  ranks.reserve(places.size());
  for (const std::string& place : places) ranks.push_back(cuda::placement_from(place));
  return cuda::placement_table(ranks, share_devices);
}

}  // namespace penstock
