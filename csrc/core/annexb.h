// Length-prefixed NAL units (ISO/IEC 14496-15) to start codes (ITU-T H.264 and H.265, Annex B), which the parser takes.
#pragma once

#include <cstddef>
#include <vector>

namespace vd {

struct Span {
    const unsigned char* data;
    size_t size;
};

// Rewrites a packet. With 4-byte lengths it is changed in place; with others it is copied to `scratch`.
// `whole` becomes false where a length reaches past the packet's end.
Span to_start_codes(unsigned char* data, size_t size, int length_size, std::vector<unsigned char>& scratch,
                    bool& whole);

}  // namespace vd
