#include "engine/device/device.hpp"

#include <algorithm>
#include <map>

#include "engine/device/shared_memory.hpp"
#include "engine/tuning/device_tuning.hpp"

namespace terrane::engine {

const char* to_string(device_kind kind) {
  switch (kind) {
    case device_kind::cpu:
      return "cpu";
    case device_kind::vulkan:
      return "vulkan";
    case device_kind::cuda:
      return "cuda";
  }
  return "unknown";
}

const char* to_string(memory_use use) {
  switch (use) {
    case memory_use::weights:
      return "weights";
    case memory_use::kv:
      return "kv";
    case memory_use::scratch:
      return "scratch";
    case memory_use::staging:
      return "staging";
  }
  return "unknown";
}

// Wraps a device's own memory so that its bytes leave the accounts when it goes.
class device::accounted_memory : public device_memory {
 public:
  accounted_memory(std::unique_ptr<device_memory> inner, std::atomic<std::uint64_t>& use,
                   card_account& card)
      : device_memory(inner->address(), inner->bytes(), inner->host()),
        inner_(std::move(inner)),
        use_(use),
        card_(card) {
    use_ += bytes();
    card_.used += bytes();
    set_content(inner_->content());
  }
  ~accounted_memory() override {
    inner_->set_content(content());
    inner_.reset();
    use_ -= bytes();
    card_.used -= bytes();
  }

 private:
  std::unique_ptr<device_memory> inner_;
  std::atomic<std::uint64_t>& use_;
  card_account& card_;
};

device::device(device_info info) : info_(std::move(info)), card_(account_of(info_.card)) {}

std::shared_ptr<const device_tuning> device::tuning() {
  std::lock_guard lock(tuning_guard_);
  if (tuning_ == nullptr) tuning_ = std::make_shared<const device_tuning>(info_);
  return tuning_;
}

void device::use_tuning(std::shared_ptr<const device_tuning> tuning) {
  std::lock_guard lock(tuning_guard_);
  tuning_ = std::move(tuning);
}

std::shared_ptr<device::card_account> device::account_of(const std::string& card) {
  if (card.empty()) return std::make_shared<card_account>();
  static std::mutex access;
  static std::map<std::string, std::weak_ptr<card_account>> cards;
  std::lock_guard lock(access);
  std::shared_ptr<card_account> account = cards[card].lock();
  if (account == nullptr) cards[card] = account = std::make_shared<card_account>();
  return account;
}

const std::string& device::no_direct_path(device& from) {
  static const std::string none = "these two devices have no path but through host memory";
  auto* importer = dynamic_cast<imports_memory*>(&from);
  return importer == nullptr ? none : importer->no_shared_path(*this);
}

result<void> device::copy_direct(device& from, std::span<const copy_range> ranges) {
  if (auto* importer = dynamic_cast<imports_memory*>(&from); importer != nullptr)
    return importer->copy_shared(from, *this, ranges);
  return fail(error_code::unsupported,
              "a direct copy from " + from.info().name + ": " + no_direct_path(from), info_.name);
}

std::uint64_t device::used_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& u : used_) sum += u.load();
  return sum;
}

std::uint64_t device::limit_bytes() const {
  const std::uint64_t own = used_bytes(), all = std::max(own, card_->used.load());
  const std::uint64_t left = info_.memory_bytes - std::min(info_.memory_bytes, all - own);
  // A budget may be larger than what a driver says it has: a device decides by itself then.
  if (budget_bytes() == 0) return left;
  return all == own ? budget_bytes() : std::min(budget_bytes(), left);
}

void device::keeps_memory(bool does) {
  std::lock_guard lock(card_->admission);
  if (does)
    card_->keepers.push_back(this);
  else
    std::erase(card_->keepers, this);
}

result<std::unique_ptr<device_memory>> device::allocate(std::size_t bytes, memory_use use,
                                                        std::uint64_t content) {
  if (bytes == 0) bytes = 1;
  std::lock_guard lock(card_->admission);
  const std::uint64_t limit = limit_bytes();
  std::uint64_t held = used_bytes();
  if (bytes > limit || held > limit - bytes) {
    return fail_short(error_code::no_room, bytes, limit > held ? limit - held : 0,
                      std::string("no room for ") + std::to_string(bytes) + " bytes of " +
                          to_string(use) + ": " + std::to_string(held) + " of " +
                          std::to_string(limit) + " bytes are in use",
                      info_.name);
  }
  result<std::unique_ptr<device_memory>> made =
      content == 0 ? nullptr : take_kept(bytes, use, content);
  if (*made == nullptr) made = allocate_memory(bytes, use);
  if (!made && made.error().code == error_code::no_room && !card_->keepers.empty()) {
    for (device* keeper : card_->keepers) keeper->trim();
    made = allocate_memory(bytes, use);
  }
  if (!made) return made;
  return std::make_unique<accounted_memory>(std::move(*made), used_[static_cast<std::size_t>(use)],
                                            *card_);
}

}  // namespace terrane::engine
