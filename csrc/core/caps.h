// What the hardware decodes, asked of the driver once for each kind of stream.
#pragma once

#include <map>
#include <mutex>
#include <tuple>

#include "core/driver/types.h"

namespace vd {

class Caps {
  public:
    // The calling thread has the context current.
    driver::DecodeCaps get(int codec, int chroma, int depth);

  private:
    std::mutex mutex_;
    std::map<std::tuple<int, int, int>, driver::DecodeCaps> known_;
};

const char* codec_name(int codec);

// Throws Error(unsupported), naming what was found and the limit.
void require_supported(const driver::DecodeCaps& caps, const driver::VideoFormat& format, const char* name);

}  // namespace vd
