// One indexed video, as decoding needs it: where its packets lie and what has to be fed before them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/driver/types.h"

namespace vd {

// What tells one state of a local file from another.
struct Identity {
    int64_t size_bytes = 0, mtime_ns = 0, inode = 0;
};

struct Video {
    std::string name;  // for messages
    std::string path;  // of a local file; empty where the caller brings the bytes with each run
    Identity identity;
    driver::Codec codec = driver::kH264;
    int nal_length_size = 0;  // bytes of the length before each NAL unit; 0 = start codes, or no NAL units
    std::vector<int64_t> packet_offset, packet_size;  // bytes; offsets in the file
    std::vector<int64_t> first_packet;                // per picture, and one more
    std::vector<uint8_t> sync;                        // per picture: whether decoding may start there
    std::vector<int32_t> parameter_sets;              // per picture: which of the blobs is in force
    std::vector<std::string> parameter_set_blobs;     // with start codes, as the parser wants them

    int64_t pictures() const { return static_cast<int64_t>(first_packet.size()) - 1; }
};

}  // namespace vd
