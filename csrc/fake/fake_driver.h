// A driver for machines without a GPU, for tests: one library with the symbols of libcuda and libnvcuvid.
//
// It behaves as far as the core can tell: copies run late and in order on each stream, parsers reorder and reuse
// surfaces as soon as they have announced a picture, time stamps come out in rising order, mapped pictures are limited
// in number and their memory turns to garbage when they are unmapped.
//
// Its bitstream: a packet is a row of pictures of kPictureBytes each; anything else between them (parameter sets) is
// passed over.
//   'F' 'K' flags value width(2, little endian) height(2) chroma depth surfaces rank
// `value` fills the luma of the picture, value + 1 its chroma. Pictures are shown by rank, which counts up from the
// last key picture; `surfaces` is what the decoder needs.
#pragma once

#include <cstdint>

namespace fake {

constexpr int kPictureBytes = 12;
enum Flags : uint8_t { kKey = 1, kHidden = 2, kUndecodable = 4, kDamaged = 8, kShowsBefore = 16 };

}  // namespace fake

extern "C" {
// The nth call from now on of a function, by its symbol, fails with a code, and with `lasts` every one behind it; 0
// calls it off.
void fake_fail(const char* symbol, int nth, int code, bool lasts);
// Decoders that fit into memory; -1: any number.
void fake_set_decoder_limit(int limit);
// Microseconds that each copy takes.
void fake_set_copy_delay(int microseconds);
int fake_decoders_alive();
int fake_most_decoders();
// Objects that were not given back: streams, events, parsers, decoders, mapped pictures.
int fake_leaks();
}
