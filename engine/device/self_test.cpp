#include "engine/device/self_test.hpp"

#include <algorithm>

#include "engine/device/compile_all.hpp"
#include "kernels/cache/code_cache.hpp"
#include "kernels/contract/selftest.hpp"

namespace terrane::engine {

namespace {

// Changes when any check does.
std::uint64_t checks_identity() {
  std::uint64_t h = 0;
  for (const kernels::contract_check& c : kernels::contract_checks())
    h = h * 1099511628211U + c.quick.hash;
  return h;
}

result<void> run_check(device& on, const kernels::program& p, kernels::grid groups,
                       std::span<const std::uint32_t> input, std::span<std::uint32_t> output) {
  auto out = on.allocate(output.size_bytes(), memory_use::staging);
  if (!out) return tl::unexpected<error>(out.error());
  auto in = on.allocate(std::max<std::size_t>(4, input.size_bytes()), memory_use::staging);
  if (!in) return tl::unexpected<error>(in.error());
  result<void> ok;
  if (!input.empty()) ok = on.write(**in, 0, std::as_bytes(input));
  if (!ok) return ok;
  result<const device_kernel*> kernel = on.compile(p);
  if (!kernel) return tl::unexpected<error>(kernel.error());
  dispatch d;
  d.kernel = *kernel;
  d.groups_x = groups.x;
  d.groups_y = groups.y;
  d.arguments[0] = (*out)->address();
  d.arguments[1] = (*in)->address();
  auto list = on.record({&d, 1});
  if (!list) return tl::unexpected<error>(list.error());
  ok = on.submit(**list);
  if (ok) ok = on.wait();
  if (ok) ok = on.read(**out, 0, std::as_writable_bytes(output));
  return ok;
}

}  // namespace

result<void> self_test(device& on, const std::string& cache_folder) {
  kernels::code_cache passed(cache_folder);
  const kernels::code_key key = {"self-test " + on.info().name + " " + on.info().driver, 0,
                                 checks_identity()};
  if (passed.get(key)) return {};
  std::vector<kernels::program> programs;
  for (const kernels::contract_check& check : kernels::contract_checks())
    programs.push_back(check.make());
  result<void> ok = compile_all(on, programs);
  if (ok) {
    ok = kernels::check_contract(
        [&](const kernels::program& p, kernels::grid groups, std::span<const std::uint32_t> input,
            std::span<std::uint32_t> output) { return run_check(on, p, groups, input, output); });
  }
  if (!ok) {
    error why = ok.error();
    why.where = on.info().name;
    return tl::unexpected<error>(why);
  }
  const std::byte yes{1};
  passed.put(key, {&yes, 1});
  return {};
}

}  // namespace terrane::engine
