// Decoders kept between runs: making one takes 45-60 ms and the driver makes one at a time (measured on an H200).
#pragma once

#include <list>
#include <memory>
#include <mutex>

#include "core/driver/types.h"

namespace vd {

// Pictures that can be mapped at a time.
constexpr unsigned kOutputSurfaces = 4;

// What cannot be changed by reconfiguring. Sides are classes: the next of 512, 1024, 2048, 4096, 8192.
struct DecoderKey {
    int codec, chroma, depth, width_class, height_class;
};

// What a stream asks of a decoder.
struct DecoderNeed {
    DecoderKey key;
    unsigned width = 0, height = 0;  // coded size in pixels
    unsigned surfaces = 0;           // decode surfaces, at least
};

struct PooledDecoder {
    DecoderKey key;
    driver::Decoder handle = nullptr;
    unsigned surfaces = 0;           // as created; all are used, whatever the stream needs
    unsigned width = 0, height = 0;  // coded size in pixels that it is set to

    size_t size_bytes() const;  // of its decode surfaces, about
    // One made for larger pictures serves too: setting its size takes microseconds, making another 50 ms.
    bool fits(const DecoderNeed& need) const {
        return key.codec == need.key.codec && key.chroma == need.key.chroma && key.depth == need.key.depth &&
               key.width_class >= need.key.width_class && key.height_class >= need.key.height_class &&
               surfaces >= need.surfaces;
    }
};

class DecoderPool {
  public:
    // limit_bytes: surfaces of all decoders at most, as long as idle ones can be destroyed to keep to it.
    explicit DecoderPool(size_t limit_bytes) : limit_bytes_(limit_bytes) {}

    // Destroys idle decoders; the calling thread has the context current.
    void clear();

    // A decoder that fits, an idle one where there is one. The calling thread has the context current.
    // Throws Error(out_of_memory), Error(driver), after idle decoders have been given up and it was tried again.
    std::unique_ptr<PooledDecoder> take(const DecoderNeed& need);
    void give_back(std::unique_ptr<PooledDecoder> decoder);
    // Destroys a decoder that may not be used again.
    void discard(std::unique_ptr<PooledDecoder> decoder);

    // Sets a decoder that fits to the size of a stream.
    void resize(PooledDecoder& decoder, const DecoderNeed& need);

    struct Counts {
        unsigned long long created, reconfigured, destroyed;
    };
    Counts counts() const;

    static DecoderKey key_of(const driver::VideoFormat& format, const driver::DecodeCaps& caps);

  private:
    std::unique_ptr<PooledDecoder> create(const DecoderNeed& need);
    void destroy(PooledDecoder& decoder);
    std::unique_ptr<PooledDecoder> take_idle(const DecoderNeed* need);

    const size_t limit_bytes_;
    mutable std::mutex mutex_;
    std::list<std::unique_ptr<PooledDecoder>> idle_;  // most recently used first
    size_t alive_bytes_ = 0;
    Counts counts_{0, 0, 0};
};

}  // namespace vd
