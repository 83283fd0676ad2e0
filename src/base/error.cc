#include "rotary/error.hpp"

#include <atomic>
#include <cstring>
#include <new>
#include <utility>

namespace rotary {

struct Error::Sentence {
  std::atomic<int> owners;
  char* text() noexcept { return reinterpret_cast<char*>(this + 1); }
};

Error::Error(ErrorCode code, const char* sentence) : sentence_(nullptr), code_(code) {
  const std::size_t length = std::strlen(sentence) + 1;
  if (void* memory = ::operator new(sizeof(Sentence) + length, std::nothrow)) {
    sentence_ = new (memory) Sentence{1};
    std::memcpy(sentence_->text(), sentence, length);
  }
}

Error::Error(const Error& other) noexcept : std::exception(other), sentence_(other.sentence_), code_(other.code_) {
  if (sentence_ != nullptr) sentence_->owners.fetch_add(1, std::memory_order_relaxed);
}

Error& Error::operator=(const Error& other) noexcept {
  Error copy(other);
  std::swap(sentence_, copy.sentence_);
  std::swap(code_, copy.code_);
  return *this;
}

Error::~Error() {
  if (sentence_ != nullptr && sentence_->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    sentence_->~Sentence();
    ::operator delete(sentence_);
  }
}

const char* Error::what() const noexcept { return sentence_ != nullptr ? sentence_->text() : "out of memory"; }

}  // namespace rotary
