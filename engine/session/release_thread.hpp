// Frees what replies leave behind (KV pages, the plan before a change) on a thread of its own:
// unmapping a long context, or freeing hundreds of arenas on a GPU, takes as long as several
// tokens, and other replies must not wait for it.
//
// give() is the step loop's; finish() may be called from any thread. What was given is owned here
// until it is freed; the devices outlive this object.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace terrane::engine {

class release_thread {
 public:
  release_thread();
  ~release_thread();  // frees all that was given
  release_thread(const release_thread&) = delete;
  release_thread& operator=(const release_thread&) = delete;

  // Takes over what the caller, its last owner, no longer needs. Returns at once.
  void give(std::shared_ptr<void> unneeded);
  // Waits until all that was given so far is free. False if there was nothing to wait for.
  bool finish();

 private:
  void run();

  std::mutex guard_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<void>> given_;
  std::uint64_t count_given_ = 0, count_freed_ = 0;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace terrane::engine
