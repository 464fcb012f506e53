#include "core/annexb.h"

namespace vd {

Span to_start_codes(unsigned char* data, size_t size, int length_size, std::vector<unsigned char>& scratch,
                    bool& whole) {
    const size_t prefix = static_cast<size_t>(length_size);
    const bool in_place = length_size == 4;
    whole = true;
    if (!in_place) scratch.clear();
    size_t at = 0;
    while (at + prefix <= size) {
        size_t length = 0;
        for (size_t k = 0; k < prefix; k++) length = length << 8 | data[at + k];
        if (length > size - at - prefix) {
            whole = false;
            break;
        }
        if (in_place) {
            data[at] = data[at + 1] = data[at + 2] = 0;
            data[at + 3] = 1;
        } else {
            scratch.insert(scratch.end(), {0, 0, 0, 1});
            scratch.insert(scratch.end(), data + at + prefix, data + at + prefix + length);
        }
        at += prefix + length;
    }
    if (at < size) whole = false;
    return in_place ? Span{data, at} : Span{scratch.data(), scratch.size()};
}

}  // namespace vd
