// The factor of RMSNorm over a row, for the kernels that normalise one. The sum of squares keeps
// the contract's 256 chains: chain j is lane j % 32 of vector j / 32, and a warp owns the vectors
// w, w + W, ... of every 256 elements.
#pragma once

#include "kernels/lang/builder.hpp"

namespace terrane::kernels {

class row_norm {
 public:
  // Rows of k elements, a multiple of 32; `warps`, which divide 8, share the work.
  row_norm(builder& b, std::uint32_t k, int warps);

  // rsqrt(mean(x^2) + eps) of the row at address x, f32, the same in every warp. All warps of the
  // group must come here together.
  val factor(val x, float eps);

 private:
  val load(val x, val element);
  int own_vectors() const;
  val own_vector(int t);
  vals full_chains(val x);
  vals add_tail(val x, vals chains);
  vals share(const vals& own);

  builder& b_;
  std::uint32_t k_;
  int warps_;
};

}  // namespace terrane::kernels
